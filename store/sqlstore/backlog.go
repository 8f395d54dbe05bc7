package sqlstore

import (
	"context"

	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/upkeep"
)

var _ upkeep.Backlogger = (*Store)(nil)

// Backlog implements [upkeep.Backlogger]. Backlog uses indexes. On a standby, Backlog counts the rows
// that the standby has.
func (s *Store) Backlog(ctx context.Context) (b upkeep.Backlog, err error) {
	err = s.Pool().Query(ctx, store.Statement{SQL: dialect.Backlog(s.dialect.name)}, func(row sqlplane.Row) error { return dialect.AddBacklog(&b, row) })
	return b, err
}
