package pgxstore

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/upkeep"
)

var _ upkeep.Backlogger = (*Store)(nil)

// Backlog implements [upkeep.Backlogger]. Backlog reads two indexes of the store's table. On a standby,
// Backlog counts the rows that the standby has.
func (s *Store) Backlog(ctx context.Context) (b upkeep.Backlog, err error) {
	_, err = s.apart(ctx, pipeline{{sql: dialect.Backlog(sqlplane.PostgreSQL), each: func(row pgx.Rows) error { return dialect.AddBacklog(&b, row) }}})
	return b, err
}
