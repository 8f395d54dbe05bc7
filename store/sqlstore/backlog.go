package sqlstore

import (
	"context"

	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/upkeep"
)

var _ upkeep.Backlogger = (*Store)(nil)

// Backlog implements [upkeep.Backlogger], by indexes. A standby counts what it has.
func (s *Store) Backlog(ctx context.Context) (upkeep.Backlog, error) {
	conn, err := s.acquire(ctx, store.BeginOptions{})
	if err != nil {
		return upkeep.Backlog{}, s.down(err)
	}
	defer func() { _ = conn.Close() }()
	b, err := dialect.ScanBacklog(conn.QueryRowContext(s.ownContext(ctx), dialect.Backlog(s.dialect.name)))
	if err != nil {
		return upkeep.Backlog{}, s.down(err)
	}
	return b, nil
}
