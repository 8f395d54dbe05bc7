package pgxstore

import (
	"context"
	"time"

	"github.com/oncelib/once/internal/pgsql"
	"github.com/oncelib/once/store"
)

var _ store.AttemptLog = (*Store)(nil)

// WriteAttempts implements [store.AttemptLog]: one statement, whatever the number.
func (s *Store) WriteAttempts(ctx context.Context, list []store.Attempt) error {
	_, err := s.pool.Exec(ctx, pgsql.InsertAttempts,
		column(list, func(a *store.Attempt) string { return a.KeyHash }),
		column(list, func(a *store.Attempt) []byte { return a.ID[:] }),
		column(list, func(a *store.Attempt) string { return a.Scope }),
		column(list, func(a *store.Attempt) int64 { return time.Since(a.Ended).Microseconds() }),
		column(list, func(a *store.Attempt) string { return a.Outcome }),
		column(list, func(a *store.Attempt) string { return a.Effect }),
		column(list, func(a *store.Attempt) string { return a.From }),
		column(list, func(a *store.Attempt) string { return a.To }),
		column(list, func(a *store.Attempt) string { return a.Cause }),
		column(list, func(a *store.Attempt) int64 { return int64(a.Attempt) }),
		column(list, func(a *store.Attempt) int64 { return int64(a.Runs) }),
		column(list, func(a *store.Attempt) int64 { return a.Dropped }),
		column(list, func(a *store.Attempt) string { return a.RequestID }),
		column(list, func(a *store.Attempt) string { return a.CorrelationID }),
		column(list, func(a *store.Attempt) string { return a.Node }),
		column(list, func(a *store.Attempt) int64 { return a.LockWait.Microseconds() }),
		column(list, func(a *store.Attempt) int64 { return a.Waited.Microseconds() }),
		column(list, func(a *store.Attempt) int64 { return a.Handler.Microseconds() }),
		column(list, func(a *store.Attempt) int64 { return a.Commit.Microseconds() }),
		column(list, func(a *store.Attempt) int64 { return a.Total.Microseconds() }),
	)
	if err != nil {
		return down(err)
	}
	return nil
}

// SweepAttempts implements [store.AttemptLog].
func (s *Store) SweepAttempts(ctx context.Context, keep time.Duration, limit int) (int, error) {
	tag, err := s.pool.Exec(ctx, pgsql.SweepAttempts, keep.Microseconds(), limit)
	if err != nil {
		return 0, down(err)
	}
	return int(tag.RowsAffected()), nil
}

func column[T any](list []store.Attempt, of func(*store.Attempt) T) []T {
	all := make([]T, len(list))
	for i := range list {
		all[i] = of(&list[i])
	}
	return all
}
