package once_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// callCount counts the calls of a store, and how many there are at once.
type callCount struct {
	calls, now, most atomic.Int64
}

// begin is a Begin that takes a while, as a database does.
func (g *callCount) begin(s store.Store[tx]) func(context.Context, store.BeginOptions) (store.Transaction[tx], store.Record, error) {
	return func(ctx context.Context, ask store.BeginOptions) (store.Transaction[tx], store.Record, error) {
		g.calls.Add(1)
		if n := g.now.Add(1); n > g.most.Load() {
			g.most.Store(n)
		}
		defer g.now.Add(-1)
		pass(time.Millisecond)
		return s.Begin(ctx, ask)
	}
}

func newCounted(cfg once.Config) (*memstore.Store, *once.Engine[tx], *callCount) {
	s, g := memstore.New(), new(callCount)
	return s, once.New(&spy{Store: s, begin: g.begin(s)}, cfg), g
}

// tally calls Do n times at once and counts what the callers learn.
func tally(n int, call func() (once.Result[string], error)) map[string]int {
	var mu sync.Mutex
	var wg sync.WaitGroup
	told := map[string]int{}
	for range n {
		wg.Go(func() {
			r, err := call()
			word := "executed"
			if err != nil {
				word = string(once.CodeOf(err))
			} else if r.Replayed {
				word = "replayed"
			}
			mu.Lock()
			defer mu.Unlock()
			told[word]++
		})
	}
	wg.Wait()
	return told
}

// slowly is a charge that takes a while.
func slowly(d time.Duration, key string) func(context.Context, tx) (string, error) {
	return func(ctx context.Context, t tx) (string, error) {
		pass(d)
		return charge(key)(ctx, t)
	}
}

func TestDuplicatesShareOneStoreCall(t *testing.T) {
	for _, wait := range []time.Duration{0, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			s, e, g := newCounted(once.Config{})
			op := once.Operation{Scope: "s", Key: "k", Wait: wait}
			began := time.Now()
			told := tally(200, func() (once.Result[string], error) {
				return once.Do(t.Context(), e, op, slowly(10*time.Second, "k"))
			})
			others := "in_flight"
			if wait > 0 {
				others = "replayed"
			}
			if told["executed"] != 1 || told[others] != 199 {
				t.Errorf("told %v", told)
			}
			if g.calls.Load() != 1 {
				t.Errorf("%d store calls for one execution", g.calls.Load())
			}
			if d := time.Since(began); d > 11*time.Second {
				t.Errorf("it took %v", d)
			}
			wantEffects(t, s, "k", 1)
		})
	}
}

// The operation runs in another process: one of the waiting callers asks for all.
func TestOneLeaderPollsForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, e, g := newCounted(once.Config{})
		elsewhere := once.New(s, once.Config{})
		go func() {
			_, err := once.Do(t.Context(), elsewhere, once.Operation{Scope: "s", Key: "k"}, slowly(10*time.Second, "k"))
			if err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		began := time.Now()
		told := tally(200, func() (once.Result[string], error) {
			return once.Do(t.Context(), e, once.Operation{Scope: "s", Key: "k", Wait: time.Minute}, charge("k"))
		})
		if told["replayed"] != 200 {
			t.Errorf("told %v", told)
		}
		if g.most.Load() != 1 || g.calls.Load() > 100 {
			t.Errorf("%d store calls, %d at once", g.calls.Load(), g.most.Load())
		}
		if late := time.Since(began) - 10*time.Second; late > 500*time.Millisecond {
			t.Errorf("learnt %v late", late)
		}
		wantEffects(t, s, "k", 1)
	})
}

func TestFollowerWaitsNoLongerThanItSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, e, _ := newCounted(once.Config{})
		go func() {
			_, _ = once.Do(t.Context(), e, once.Operation{Scope: "s", Key: "k"}, slowly(10*time.Second, "k"))
		}()
		synctest.Wait()
		began := time.Now()
		_, err := once.Do(t.Context(), e, once.Operation{Scope: "s", Key: "k", Wait: 3 * time.Second}, charge("k"))
		if once.CodeOf(err) != once.CodeInFlight || once.EffectOf(err) != once.EffectNotApplied || time.Since(began) != 3*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		_, err = once.Do(ctx, e, once.Operation{Scope: "s", Key: "k", Wait: time.Minute}, charge("k"))
		if once.CodeOf(err) != once.CodeInFlight || once.EffectOf(err) != once.EffectNotApplied || time.Since(began) != time.Second {
			t.Errorf("cancelled, after %v: %v", time.Since(began), err)
		}
		r, err := once.Do(t.Context(), e, once.Operation{Scope: "s", Key: "k", Wait: time.Minute}, charge("k"))
		if err != nil || !r.Replayed {
			t.Errorf("in the end: %+v, %v", r, err)
		}
	})
}

// The leader waits for a holder elsewhere. Who does not want to wait is told so, and
// need not ask the store.
func TestFollowersOfAWaitingLeaderNeedNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, e, g := newCounted(once.Config{})
		holder, _, err := s.Begin(t.Context(), store.BeginOptions{ID: store.ID{Scope: "s", Key: "k"}})
		must(t, err)
		var leader sync.WaitGroup
		leader.Go(func() {
			if _, err := once.Do(t.Context(), e, once.Operation{Scope: "s", Key: "k", Wait: time.Minute}, charge("k")); err != nil {
				t.Error("the leader:", err)
			}
		})
		pass(time.Second)
		began, calls := time.Now(), g.calls.Load()
		told := tally(50, func() (once.Result[string], error) {
			return once.Do(t.Context(), e, once.Operation{Scope: "s", Key: "k"}, charge("k"))
		})
		if told["in_flight"] != 50 || time.Since(began) != 0 || g.calls.Load() != calls {
			t.Errorf("after %v and %d store calls: %v", time.Since(began), g.calls.Load()-calls, told)
		}
		must(t, holder.Rollback(t.Context()))
		leader.Wait()
	})
}

// The leader ends without a verdict: one of its followers leads on.
func TestFollowersOutliveTheirLeader(t *testing.T) {
	for name, end := range map[string]func(){"panic": func() { panic("boom") }, "Goexit": runtime.Goexit} {
		synctest.Test(t, func(t *testing.T) {
			s, e, _ := newCounted(once.Config{})
			go func() {
				defer func() { _ = recover() }()
				_, _ = once.Do(t.Context(), e, once.Operation{Scope: "s", Key: "k"}, func(ctx context.Context, t tx) (string, error) {
					_, err := slowly(time.Second, "k")(ctx, t)
					end()
					return "", err
				})
			}()
			synctest.Wait()
			told := tally(200, func() (once.Result[string], error) {
				return once.Do(t.Context(), e, once.Operation{Scope: "s", Key: "k", Wait: time.Minute}, charge("k"))
			})
			if told["executed"] != 1 || told["replayed"] != 199 {
				t.Errorf("%s: told %v", name, told)
			}
			wantEffects(t, s, "k", 1)
		})
	}
}

func TestFollowersOutliveACancelledLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, e, _ := newCounted(once.Config{})
		holder, _, err := s.Begin(t.Context(), store.BeginOptions{ID: store.ID{Scope: "s", Key: "k"}})
		must(t, err)
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := once.Do(ctx, e, once.Operation{Scope: "s", Key: "k", Wait: time.Minute}, charge("k"))
			if c := once.CodeOf(err); c != once.CodeInFlight && c != once.CodeUnavailable { // it was waiting, or asking
				t.Errorf("the leader: %v", err)
			}
		}()
		synctest.Wait()
		time.AfterFunc(3*time.Second, func() { _ = holder.Rollback(context.Background()) })
		r, err := once.Do(t.Context(), e, once.Operation{Scope: "s", Key: "k", Wait: time.Minute}, charge("k"))
		if err != nil || r.Replayed {
			t.Errorf("the follower: %+v, %v", r, err)
		}
		wantEffects(t, s, "k", 1)
	})
}

// The leader is refused at once, for its own reason. That is no reason for a
// follower which asks for the same as the holder.
func TestMismatchOfTheLeaderIsItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, e, _ := newCounted(once.Config{})
		id := store.ID{Scope: "s", Key: "k"}
		same, other := once.FingerprintOf([]byte("same")), once.FingerprintOf([]byte("other"))
		running := store.Record{State: store.StateRunning, Fence: 1, Fingerprint: same[:], Nonce: make([]byte, 16)}
		_, err := s.Swap(t.Context(), store.Change{ID: id, Next: running, Lease: time.Hour})
		must(t, err)
		go func() {
			_, err := once.Do(t.Context(), e, once.Operation{Scope: "s", Key: "k", Fingerprint: other}, charge("k"))
			if once.CodeOf(err) != once.CodeMismatch {
				t.Errorf("the leader: %v", err)
			}
		}()
		synctest.Wait() // the leader is on its way to the store
		time.AfterFunc(3*time.Second, func() {
			_, err := s.Swap(context.Background(), store.Change{ID: id, Expect: store.Expect{Fence: 1}, Next: store.Record{}})
			if err != nil {
				t.Error(err)
			}
		})
		r, err := once.Do(t.Context(), e, once.Operation{Scope: "s", Key: "k", Fingerprint: same, Wait: time.Minute}, charge("k"))
		if err != nil || r.Replayed {
			t.Errorf("the follower: %+v, %v", r, err)
		}
	})
}

// Followers compare their own fingerprint with what the leader has learnt.
func TestFollowersCompareFingerprints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, e, g := newCounted(once.Config{})
		op := func(request string) once.Operation {
			return once.Operation{Scope: "s", Key: "k", Fingerprint: once.FingerprintOf([]byte(request)), Wait: time.Minute}
		}
		go func() {
			if _, err := once.Do(t.Context(), e, op("a"), slowly(time.Second, "k")); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		told := tally(10, func() (once.Result[string], error) { return once.Do(t.Context(), e, op("b"), charge("k")) })
		if told["mismatch"] != 10 || g.calls.Load() != 1 {
			t.Errorf("told %v by %d store calls", told, g.calls.Load())
		}
	})
}
