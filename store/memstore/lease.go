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

func (s *Store) renew(h store.Hold, lease time.Duration) bool {
	old := s.live(h.ID)
	if !holds(old, h) {
		return false
	}
	next := *old
	if next.lease = (time.Time{}); lease > 0 {
		next.lease = s.now().Add(lease)
	}
	s.rows[h.ID] = &next
	return true
}

// Unfinished implements [upkeep.Lister].
func (s *Store) Unfinished(ctx context.Context, page upkeep.Listing) ([]upkeep.Entry, error) {
	if err := ctx.Err(); err != nil {
		return nil, down(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	var list []upkeep.Entry
	for id, r := range s.rows {
		if r.rec.State == store.StateDone || compare(id, page.After) <= 0 || page.Before != "" && id.Scope >= page.Before || page.Name != "" && r.rec.Name != page.Name {
			continue
		}
		rec := r.record(now)
		if page.State != store.StateAbsent && rec.State != page.State {
			continue
		}
		if page.Due && rec.State == store.StateRunning && !rec.LeaseExpired {
			continue
		}
		rec.Data, rec.Request = nil, nil
		list = append(list, upkeep.Entry{ID: id, Record: rec})
	}
	slices.SortFunc(list, func(a, b upkeep.Entry) int { return compare(a.ID, b.ID) })
	return list[:max(0, min(page.Limit, len(list)))], nil
}

// compare orders operations by the bytes of their scopes and keys.
func compare(a, b store.ID) int {
	return cmp.Or(cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Key, b.Key))
}
