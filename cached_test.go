package once_test

import (
	"context"
	"errors"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// TestReplayFromCacheIsTold: a replay says whether Config.Cache has answered it.
func TestReplayFromCacheIsTold(t *testing.T) {
	for _, size := range []int64{0, 1 << 20} {
		r := new(recorder)
		e := once.New(memstore.New(), once.Config{Observer: r, Cache: size})
		op := once.Operation{Scope: "s", Key: "k"}
		for _, cached := range []bool{false, size > 0} {
			_, err := once.Do(t.Context(), e, op, charge("k"))
			must(t, err)
			if got := r.last(t); got.Cached != cached {
				t.Errorf("cache of %d bytes: %s, cached %v, want %v", size, got.Outcome, got.Cached, cached)
			}
		}
	}
}

// deadlocking is a store whose handlers meet what it takes for a deadlock.
type deadlocking struct{ *memstore.Store }

var errDeadlock = &store.Error{Kind: store.KindRetry, Err: errors.New("deadlock")}

func (deadlocking) IsDeadlock(err error) bool { return errors.Is(err, errDeadlock) }

// TestDeadlocksAreTold: each run that a deadlock has ended is told once, also the last one, and one of a Join is
// not told twice.
func TestDeadlocksAreTold(t *testing.T) {
	const runs = 3 // the default
	r := new(recorder)
	e := once.New[tx](deadlocking{memstore.New()}, once.Config{Observer: r})
	deadlocks := func() (n int) {
		for _, ev := range r.take() {
			if ev.Deadlock {
				n++
			}
		}
		return n
	}
	fail := func(context.Context, tx) (string, error) { return "", errDeadlock }
	_, err := once.Do(t.Context(), e, once.Operation{Scope: "s", Key: "1"}, fail)
	if n := deadlocks(); n != runs || once.CodeOf(err) != once.CodeConflict {
		t.Errorf("%d deadlocks of %d runs: %v", n, runs, err)
	}
	_, err = once.Do(t.Context(), e, once.Operation{Scope: "s", Key: "2"}, func(ctx context.Context, tx tx) (string, error) {
		res, err := once.Join(ctx, e, tx, once.Operation{Scope: "s", Key: "3"}, fail)
		return res.Value, err
	})
	if n := deadlocks(); n != runs {
		t.Errorf("%d deadlocks of %d runs with a Join: %v", n, runs, err)
	}
	_, err = once.Do(t.Context(), e, once.Operation{Scope: "s", Key: "4"}, func(context.Context, tx) (string, error) {
		return "", &store.Error{Kind: store.KindRetry, Err: errors.New("serialization failure")}
	})
	if n := deadlocks(); n != 0 {
		t.Errorf("%d deadlocks, want none: %v", n, err)
	}
}
