package memstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/upkeep"
)

var (
	_ store.Renewer = (*Store)(nil)
	_ upkeep.Lister = (*Store)(nil)
)

// Renew implements [store.Renewer].
func (s *Store) Renew(ctx context.Context, holds []store.Hold, lease time.Duration) (renewed []store.Hold, err error) {
	if err := ctx.Err(); err != nil {
		return nil, down(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range holds {
		if s.renew(h, lease) {
			renewed = append(renewed, h)
		}
	}
	return renewed, nil
}

// renew sets the lease of one operation, and reports whether h still holds it.
func (s *Store) renew(h store.Hold, lease time.Duration) bool {
	old := s.live(h.ID)
	if !holds(old, h) {
		return false
	}
	// A copy, because rows are shared: a sweep or an open transaction may still refer to the old row.
	next := *old
	if next.lease = (time.Time{}); lease > 0 {
		next.lease = s.now().Add(lease)
	}
	s.rows[h.ID] = &next
	return true
}

// Unfinished implements [upkeep.Lister].
func (s *Store) Unfinished(ctx context.Context, page upkeep.Listing) (list []upkeep.Entry, next store.ID, err error) {
	if err := ctx.Err(); err != nil {
		return nil, next, down(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	var read []store.ID
	for id, r := range s.rows {
		if r.rec.State != store.StateDone && compare(id, page.After) > 0 && (page.Before == "" || id.Scope < page.Before) {
			read = append(read, id)
		}
	}
	slices.SortFunc(read, compare)
	// The limit counts the operations that were read, as in a database, not the operations that match.
	if read = read[:max(0, min(page.Limit, len(read)))]; len(read) > 0 && len(read) == page.Limit {
		next = read[len(read)-1]
	}
	for _, id := range read {
		rec := s.rows[id].record(now)
		switch {
		case page.Name != "" && rec.Name != page.Name:
		case page.State != store.StateAbsent && rec.State != page.State:
		case page.Due && rec.State == store.StateRunning && !rec.LeaseExpired:
		default:
			// A list does not contain these, as in a database.
			rec.Data, rec.Request = nil, nil
			list = append(list, upkeep.Entry{ID: id, Record: rec})
		}
	}
	return list, next, nil
}

// compare orders operations by the bytes of their scopes and keys.
func compare(a, b store.ID) int {
	return cmp.Or(cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Key, b.Key))
}
