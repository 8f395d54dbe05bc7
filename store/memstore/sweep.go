package memstore

import (
	"context"
	"slices"

	"github.com/oncelib/once/store"
)

var _ store.Sweeper = (*Store)(nil)

// Sweep implements [store.Sweeper].
func (s *Store) Sweep(ctx context.Context, req store.Sweep) (store.Swept, error) {
	if err := ctx.Err(); err != nil {
		return store.Swept{}, down(err)
	}
	rows, kept := s.expired(req)
	if len(rows) > 0 && req.Keep != nil {
		if err := req.Keep(ctx, kept); err != nil {
			return store.Swept{}, &store.Error{Kind: store.Other, Err: err}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	swept := store.Swept{More: len(rows) >= req.Limit, Mark: req.After}
	for i, r := range rows {
		if s.rows[kept[i].ID] == r && s.claims[kept[i].ID] == nil { // still the one that was kept
			delete(s.rows, kept[i].ID)
			swept.Rows++
		}
		swept.Mark = r.until
	}
	return swept, nil
}

// expired returns the oldest rows that nobody claims.
func (s *Store) expired(req store.Sweep) (rows []*row, as []store.Expired) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	var ids []store.ID
	for id, r := range s.rows {
		if r.rec.State == store.Done && r.expired(now) && s.claims[id] == nil && !r.until.Before(req.After) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b store.ID) int { return s.rows[a].until.Compare(s.rows[b].until) })
	for _, id := range ids[:min(len(ids), req.Limit)] {
		r := s.rows[id]
		rows, as = append(rows, r), append(as, store.Expired{ID: id, Record: r.record(now), At: r.until})
	}
	return rows, as
}
