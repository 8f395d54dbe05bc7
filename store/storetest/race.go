package storetest

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
)

// testRace proves that duplicates take effect once, at whatever moment they meet.
func testRace[TX any](t *testing.T, u *suite[TX]) {
	levels := append([]store.Isolation{store.DefaultIsolation}, u.Isolations...)
	t.Run("Duplicates", func(t *testing.T) {
		for range 20 {
			u.race(t, 16, store.DefaultIsolation, time.Minute, "replayed")
		}
	})
	t.Run("DuplicatesInFlight", func(t *testing.T) {
		for range 20 {
			u.race(t, 16, store.DefaultIsolation, 0, "replayed", "in_flight")
		}
	})
	t.Run("Isolation", func(t *testing.T) {
		for _, level := range levels {
			for range 20 {
				u.race(t, 2, level, 0, "replayed", "in_flight")
				u.race(t, 2, level, time.Minute, "replayed")
			}
		}
	})
}

// race calls one operation n times at once, from two engines. Exactly one call must have executed it, and the outcome of each
// other call must be one of others.
func (u *suite[TX]) race(t *testing.T, n int, level store.Isolation, wait time.Duration, others ...string) {
	t.Helper()
	if u.OneWriter {
		others = append(others, "unavailable") // its time to wait for the writer may be over
	}
	engines := []*once.Engine[TX]{u.engine(u.s, once.Config{Observer: once.Discard}), u.engine(u.peer, once.Config{Observer: once.Discard})}
	id, ctx := newID(), bounded(t)
	start := make(chan struct{})
	results := make([]once.Result[string], n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			op := operation(id)
			op.Isolation, op.Wait, op.Attempt.Number = level, wait, i%3
			<-start
			results[i], errs[i] = once.Do(ctx, engines[i%2], op, u.charge(id.Key))
		})
	}
	close(start)
	wg.Wait()
	executed, value := 0, ""
	for i, err := range errs {
		word, _, _ := strings.Cut(outcome(results[i], err), " ")
		known := word == "executed"
		for _, w := range others {
			known = known || word == w
		}
		switch {
		case !known:
			t.Errorf("isolation %d: call %d: %s: %v", level, i, word, err)
		case word == "executed":
			executed++
		}
		if err == nil && value != "" && value != results[i].Value {
			t.Errorf("isolation %d: two calls have returned different values: %s and %s", level, value, results[i].Value)
		}
		if err == nil {
			value = results[i].Value
		}
	}
	if executed != 1 {
		t.Errorf("isolation %d: %d of %d calls have executed the handler, want 1", level, executed, n)
	}
	u.wantEffects(t, id.Key, 1)
	if r, err := once.Do(ctx, engines[0], operation(id), u.charge(id.Key)); err != nil || !r.Replayed || r.Value != value {
		t.Errorf("isolation %d: afterwards %+v, %v, want a replay of %q", level, r, err, value)
	}
}
