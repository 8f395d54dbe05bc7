package memstore

import (
	"context"
	"slices"

	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/upkeep"
)

var _ upkeep.Sweeper = (*Store)(nil)

// Sweep implements [upkeep.Sweeper].
func (s *Store) Sweep(ctx context.Context, req upkeep.Sweep) (upkeep.Swept, error) {
	if err := ctx.Err(); err != nil {
		return upkeep.Swept{}, down(err)
	}
	// The lock is not held while Archive runs, so that no caller waits for the archive.
	found := s.expired(req)
	if len(found) > 0 && req.Archive != nil {
		if err := req.Archive(ctx, records(found)); err != nil {
			return upkeep.Swept{}, &store.Error{Kind: store.KindOther, Err: err}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	swept := upkeep.Swept{More: len(found) >= req.Limit, Mark: req.After}
	for _, f := range found {
		if s.rows[f.id] == f.row && s.claims[f.id] == nil { // unchanged since Archive has received it
			delete(s.rows, f.id)
			swept.Rows++
		}
		// The mark moves on also for a row that was kept: it is used again, or another sweep has deleted it.
		swept.Mark = f.row.until
	}
	return swept, nil
}

// expired returns the oldest expired rows that no transaction has claimed.
func (s *Store) expired(req upkeep.Sweep) (found []pending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for id, r := range s.rows {
		if r.rec.State == store.StateDone && r.expired(now) && s.claims[id] == nil && !r.until.Before(req.After) {
			found = append(found, pending{id: id, row: r})
		}
	}
	slices.SortFunc(found, func(a, b pending) int { return a.row.until.Compare(b.row.until) })
	return found[:min(len(found), req.Limit)]
}

// records returns copies of the records in rows.
func records(rows []pending) []upkeep.Expired {
	list := make([]upkeep.Expired, len(rows))
	for i, r := range rows {
		list[i] = upkeep.Expired{ID: r.id, Record: detach(r.row.rec), At: r.row.until}
	}
	return list
}
