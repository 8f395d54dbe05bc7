package pgxstore

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/internal/sql/pgsql"
)

// refusedByStandby reports whether err is there because the server is a standby, and then
// closes conn: the pool may find the primary. It ends the transaction that has failed so.
func refusedByStandby(ctx context.Context, conn *pgx.Conn, err error) (standby bool) {
	if pe := serverError(err); pe == nil || !pgsql.StandbyRefuses(pe.Code) || conn.IsClosed() {
		return false
	}
	answer := awaitAnswer(conn, abandonTime)
	defer func() { _ = answer.stop(nil) }()
	if conn.PgConn().TxStatus() != 'I' {
		if _, err := conn.Exec(ctx, "rollback"); err != nil {
			return false
		}
	}
	if conn.QueryRow(ctx, pgsql.Recovery).Scan(&standby) == nil && standby {
		_ = conn.Close(ctx)
	}
	return standby
}
