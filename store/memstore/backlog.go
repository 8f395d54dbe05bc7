package memstore

import (
	"context"
	"time"

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
	add := func(c *upkeep.Count, since time.Time) {
		c.Number = min(c.Number+1, upkeep.MaxBacklog)
		c.Oldest = max(c.Oldest, now.Sub(since))
	}
	for _, r := range s.rows {
		switch r.rec.State {
		case store.StateRunning:
			add(&b.Running, r.rec.Since)
		case store.StateWaiting:
			add(&b.Waiting, r.rec.Since)
		case store.StateUnknown:
			add(&b.Unknown, r.rec.Since)
		case store.StateDone:
			if r.expired(now) {
				add(&b.Expired, r.until)
			}
		case store.StateAbsent:
		}
	}
	return b, nil
}
