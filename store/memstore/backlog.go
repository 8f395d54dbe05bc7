package memstore

import (
	"context"

	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/upkeep"
)

var _ upkeep.Backlogger = (*Store)(nil)

// Backlog implements [upkeep.Backlogger].
func (s *Store) Backlog(ctx context.Context) (b upkeep.Backlog, err error) {
	if err := ctx.Err(); err != nil {
		return b, down(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for _, r := range s.rows {
		switch {
		case r.rec.State != store.StateDone:
			b.Add(r.rec.State, r.rec.Name, 1, now.Sub(r.rec.Since))
		case r.expired(now):
			b.Add(store.StateDone, "", 1, now.Sub(r.until))
		}
	}
	return b, nil
}
