package consumer

import (
	"database/sql"

	"github.com/jackc/pgx/v5"
)

type (
	sqlTx = *sql.Tx
	pgxTx = pgx.Tx
)
