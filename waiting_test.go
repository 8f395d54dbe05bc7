package once_test

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// TestWaitingDuplicatesAreBounded: beyond a number of waiting duplicates, or of bytes that these
// keep, one more is told at once that the operation is in flight, and keeps no memory.
func TestWaitingDuplicatesAreBounded(t *testing.T) {
	const body = 1 << 20
	for name, cfg := range map[string]once.Config{
		"number": {MaxWaiting: 10, MaxWaitingBytes: 1 << 40},
		"bytes":  {MaxWaitingBytes: 11 * body},
	} {
		synctest.Test(t, func(t *testing.T) {
			var live atomic.Int64 // bodies that callers still keep
			e := once.New(memstore.New(), cfg)
			op := once.Operation{Scope: "s", Key: "k", Wait: time.Hour, Attempt: once.Attempt{Bytes: body}}
			end := make(chan struct{})
			hold := func(context.Context, tx) (string, error) {
				<-end
				return "v", nil
			}
			var all sync.WaitGroup
			all.Go(func() { _, _ = once.Do(t.Context(), e, op, hold) })
			synctest.Wait()
			var refused, replayed atomic.Int64
			for range 300 {
				all.Go(func() {
					held := make([]byte, body)
					live.Add(1)
					defer live.Add(-1)
					r, err := once.Do(t.Context(), e, op, hold)
					runtime.KeepAlive(held)
					switch {
					case once.CodeOf(err) == once.CodeInFlight && once.EffectOf(err) == once.EffectNotApplied && strings.Contains(err.Error(), "MaxWaiting") && strings.Contains(err.Error(), "Try: "):
						refused.Add(1)
					case err == nil && r.Replayed:
						replayed.Add(1)
					default:
						t.Error(r, err)
					}
				})
				synctest.Wait()
				if n := live.Load(); n > 10 {
					t.Fatalf("%s: %d callers wait", name, n)
				}
			}
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			if live.Load() != 10 || refused.Load() != 290 || m.HeapAlloc > 100*body {
				t.Errorf("%s: %d wait, %d refused, %d bytes of memory", name, live.Load(), refused.Load(), m.HeapAlloc)
			}
			close(end)
			all.Wait()
			if replayed.Load() != 10 {
				t.Errorf("%s: %d replayed", name, replayed.Load())
			}
			// All places are free again.
			end = make(chan struct{})
			op.Key = "another"
			told := tallyWaiting(t, e, op, hold, 11)
			close(end)
			if n := <-told; n != 10 {
				t.Errorf("%s: then %d waited", name, n)
			}
		})
	}
}

// tallyWaiting has a call and n duplicates wait, and then returns how many of these have.
func tallyWaiting(t *testing.T, e *once.Engine[tx], op once.Operation, fn func(context.Context, tx) (string, error), n int) <-chan int {
	var all sync.WaitGroup
	var waited atomic.Int64
	all.Go(func() { _, _ = once.Do(t.Context(), e, op, fn) })
	synctest.Wait()
	for range n {
		all.Go(func() {
			if r, err := once.Do(t.Context(), e, op, fn); err == nil && r.Replayed {
				waited.Add(1)
			}
		})
	}
	synctest.Wait()
	told := make(chan int, 1)
	go func() {
		all.Wait()
		told <- int(waited.Load())
	}()
	return told
}

// TestWaitingForAnotherProcessIsBounded: calls of different operations that wait for the holders
// of another process count as well.
func TestWaitingForAnotherProcessIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		elsewhere, here := once.New(s, once.Config{}), once.New(s, once.Config{MaxWaiting: 2})
		end := make(chan struct{})
		hold := func(context.Context, tx) (string, error) {
			<-end
			return "v", nil
		}
		var all sync.WaitGroup
		for _, key := range []string{"a", "b", "c"} {
			op := once.Operation{Scope: "s", Key: key, Wait: time.Minute}
			all.Go(func() { _, _ = once.Do(t.Context(), elsewhere, op, hold) })
			synctest.Wait()
			all.Go(func() {
				began := time.Now()
				r, err := once.Do(t.Context(), here, op, hold)
				switch {
				case key == "c" && (once.CodeOf(err) != once.CodeInFlight || !strings.Contains(err.Error(), "MaxWaiting") || time.Since(began) > 0):
					t.Errorf("%v after %v", err, time.Since(began))
				case key != "c" && (err != nil || !r.Replayed):
					t.Errorf("%s: %+v, %v", key, r, err)
				}
			})
			pass(100 * time.Microsecond) // before the first pause is over
		}
		close(end)
		all.Wait()
	})
}

// TestAFollowerOfASilentStore: who waits for a call that has had no answer waits no longer than
// its own Timeouts allow, whatever the leader does.
func TestAFollowerOfASilentStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		s := memstore.New()
		e := once.New(&spy{Store: s, begin: func(ctx context.Context, ask store.BeginOptions) (store.Transaction[tx], store.Record, error) {
			<-answer
			return s.Begin(ctx, ask)
		}}, once.Config{})
		op := once.Operation{Scope: "s", Key: "k"}
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := once.Do(t.Context(), e, op, charge("k")); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		for timeouts, want := range map[store.Timeouts]time.Duration{
			{}: 2 * once.DefaultAcquire,
			{Acquire: time.Second, Lock: 3 * time.Second}: 5 * time.Second,
		} {
			op.Timeouts = timeouts
			began := time.Now()
			_, err := once.Do(t.Context(), e, op, charge("k"))
			if once.CodeOf(err) != once.CodeUnavailable || once.EffectOf(err) != once.EffectNotApplied || !strings.Contains(err.Error(), "Try: ") || time.Since(began) != want {
				t.Errorf("%v after %v, want %v", err, time.Since(began), want)
			}
		}
		close(answer)
		all.Wait()
		wantEffects(t, s, "k", 1)
	})
}

// TestAResultThatIsTooLarge is rolled back, whichever way it takes.
func TestAResultThatIsTooLarge(t *testing.T) {
	s := memstore.New()
	e := once.New(s, once.Config{MaxResult: 10})
	for name, c := range map[string]struct {
		do   func(value string) error
		fits int // of the value, which stands in quotes or in a Failure
	}{
		"do": {func(value string) error {
			_, err := once.Do(t.Context(), e, once.Operation{Scope: "s", Key: once.NewKey()}, func(_ context.Context, t tx) (string, error) {
				return value, t.Put("do", value)
			})
			return err
		}, 8},
		"batch": {func(value string) error {
			_, err := once.DoBatch(t.Context(), e, once.Operation{Scope: "s", Key: once.NewKey()}, func(*once.Batch) (string, error) { return value, nil })
			return err
		}, 8},
		"failure": {func(value string) error {
			_, err := once.Do(t.Context(), e, once.Operation{Scope: "s", Key: once.NewKey()}, func(_ context.Context, t tx) (string, error) {
				return "", &once.Failure{Code: value}
			})
			return err
		}, -1},
		"join": {func(value string) error {
			_, err := once.Do(t.Context(), e, once.Operation{Scope: "s", Key: once.NewKey()}, func(ctx context.Context, outer tx) (int, error) {
				_, err := once.Join(ctx, e, outer, once.Operation{Scope: "s", Key: once.NewKey()}, func(context.Context, tx) (string, error) { return value, nil })
				return 1, err
			})
			return err
		}, 8},
	} {
		if c.fits > 0 {
			if err := c.do(strings.Repeat("x", c.fits)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		err := c.do(strings.Repeat("y", c.fits+2+7))
		if once.CodeOf(err) != once.CodeFailed || once.EffectOf(err) != once.EffectNotApplied || !strings.Contains(err.Error(), "Config.MaxResult") || !strings.Contains(err.Error(), "Try: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if v, _ := s.Get("do"); v != "xxxxxxxx" {
		t.Errorf("a write stands: %q", v)
	}
}
