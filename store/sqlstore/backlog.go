package sqlstore

import (
	"context"

	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store"
)

var _ store.Backlogger = (*Store)(nil)

// Backlog implements [store.Backlogger], by indexes. A standby counts what it has.
func (s *Store) Backlog(ctx context.Context) (store.Backlog, error) {
	conn, err := s.acquire(ctx, store.BeginOptions{})
	if err != nil {
		return store.Backlog{}, s.down(err)
	}
	defer func() { _ = conn.Close() }()
	b, err := dialect.ScanBacklog(conn.QueryRowContext(s.ownContext(ctx), dialect.Backlog(s.dialect.name)))
	if err != nil {
		return store.Backlog{}, s.down(err)
	}
	return b, nil
}
