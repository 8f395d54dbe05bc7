package memstore

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/oncelib/once/store"
)

// WriteAttempts implements [store.AttemptLog].
func (s *Store) WriteAttempts(ctx context.Context, list []store.Attempt) error {
	if err := ctx.Err(); err != nil {
		return down(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range list {
		if _, there := s.attempts[a.ID]; !there {
			a.Ended = a.Ended.Add(s.ahead)
			s.attempts[a.ID] = a
		}
	}
	return nil
}

// SweepAttempts implements [store.AttemptLog].
func (s *Store) SweepAttempts(ctx context.Context, keep time.Duration, limit int) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, down(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.now().Add(-keep)
	old := s.sorted(func(a store.Attempt) bool { return a.Ended.Before(before) })
	old = old[:min(limit, len(old))]
	for _, a := range old {
		delete(s.attempts, a.ID)
	}
	return len(old), nil
}

// Attempts returns what was written of the attempts at the operation of scope and
// keyHash, the oldest first.
func (s *Store) Attempts(scope, keyHash string) []store.Attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sorted(func(a store.Attempt) bool { return a.Scope == scope && a.KeyHash == keyHash })
}

// sorted returns the attempts that are wanted, the oldest first.
func (s *Store) sorted(wanted func(store.Attempt) bool) (list []store.Attempt) {
	for _, a := range s.attempts {
		if wanted(a) {
			list = append(list, a)
		}
	}
	slices.SortFunc(list, func(a, b store.Attempt) int {
		return cmp.Or(a.Ended.Compare(b.Ended), bytes.Compare(a.ID[:], b.ID[:]))
	})
	return list
}
