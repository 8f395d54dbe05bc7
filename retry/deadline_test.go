package retry

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

type keyOfTest struct{}

// twins are a bounded context and the standard one that it must behave as, with what was
// derived from each of them.
type twins struct {
	*testing.T

	ours   *bounded
	end    []func()
	all    [2][]context.Context
	ran    [2][]*atomic.Int32 // by context.AfterFunc
	stops  [2][]func() bool
	cancel context.CancelCauseFunc // of their parent
}

func newTwins(t *testing.T, r *rand.Rand) *twins {
	t.Helper()
	parent, cancel := context.WithCancelCause(context.WithValue(context.Background(), keyOfTest{}, "parent's"))
	w := &twins{T: t, cancel: cancel}
	if r.IntN(2) == 0 {
		due, stop := context.WithTimeoutCause(parent, time.Duration(r.IntN(10))*time.Second+250*time.Millisecond, errors.New("the caller's time"))
		parent, w.end = due, append(w.end, stop)
	}
	d := time.Duration(r.IntN(10)) * time.Second
	w.ours = &bounded{Context: parent, until: in(now(), d)}
	std, stop := context.WithDeadline(parent, time.Now().Add(d))
	w.end = append(w.end, stop)
	w.all = [2][]context.Context{{w.ours}, {std}}
	return w
}

// both does the same to both sides, with one of their contexts.
func (w *twins) both(r *rand.Rand, do func(side int, ctx context.Context)) {
	n := r.IntN(len(w.all[0]))
	for side := range w.all {
		do(side, w.all[side][n])
	}
}

// late has somebody look if time is over, before something else can end it: without, it
// may say that this was first, as one whose timer is late does.
func (w *twins) late() {
	if now() >= w.ours.until {
		_ = w.ours.Err()
	}
}

// finish ends the attempt.
func (w *twins) finish() {
	w.late()
	w.ours.end()
	w.end[len(w.end)-1]()
}

func (w *twins) step(r *rand.Rand) string {
	defer synctest.Wait() // for timers and functions
	switch op := r.IntN(12); op {
	case 0:
		w.late()
		w.cancel(fmt.Errorf("cause %d", r.IntN(3)))
		return "the caller's is cancelled"
	case 1:
		w.finish()
		return "end"
	case 2, 3:
		for range r.IntN(16) {
			w.late()
			<-time.After(250 * time.Millisecond)
		}
		return "time passes"
	case 4:
		w.both(r, func(side int, ctx context.Context) {
			child, cancel := context.WithCancel(ctx)
			w.end = append([]func(){cancel}, w.end...)
			w.all[side] = append(w.all[side], child)
		})
		return "WithCancel"
	case 5:
		d := time.Duration(r.IntN(12))*time.Second + 100*time.Millisecond // no two timers at once
		w.both(r, func(side int, ctx context.Context) {
			child, cancel := context.WithTimeoutCause(ctx, d, errors.New("the child's time"))
			w.end = append([]func(){cancel}, w.end...)
			w.all[side] = append(w.all[side], child)
		})
		return "WithTimeout"
	case 6:
		w.both(r, func(side int, ctx context.Context) {
			w.all[side] = append(w.all[side], context.WithoutCancel(ctx), context.WithValue(ctx, keyOfTest{}, "own"))
		})
		return "WithoutCancel, WithValue"
	case 7:
		w.both(r, func(side int, ctx context.Context) {
			n := new(atomic.Int32)
			w.ran[side] = append(w.ran[side], n)
			w.stops[side] = append(w.stops[side], context.AfterFunc(ctx, func() { n.Add(1) }))
		})
		return "AfterFunc"
	case 8:
		if len(w.stops[0]) > 0 {
			n := r.IntN(len(w.stops[0]))
			if ours, std := w.stops[0][n](), w.stops[1][n](); ours != std {
				w.Errorf("stop returns %v, and %v for the standard", ours, std)
			}
		}
		return "stop an AfterFunc"
	case 9:
		ours, ok := w.all[0][0].Deadline()
		std, ok2 := w.all[1][0].Deadline()
		if ok != ok2 || !ours.Equal(std) {
			w.Errorf("deadline %v %v, and %v %v for the standard", ours, ok, std, ok2)
		}
		return "Deadline"
	default:
		w.compare()
		return "look"
	}
}

func (w *twins) compare() {
	w.Helper()
	synctest.Wait()
	for n, ours := range w.all[0] {
		std := w.all[1][n]
		if a, b := about(ours), about(std); a != b {
			w.Errorf("context %d is %s, and %s for the standard", n, a, b)
		}
	}
	for n := range w.ran[0] {
		if a, b := w.ran[0][n].Load(), w.ran[1][n].Load(); a != b {
			w.Errorf("function %d ran %d times, and %d for the standard", n, a, b)
		}
	}
}

// about is all that can be asked of a context, in an order that tells whether it is told
// by its channel alone.
func about(ctx context.Context) string {
	over := false
	select {
	case <-ctx.Done():
		over = true
	default:
	}
	due, ok := ctx.Deadline()
	return fmt.Sprintf("over %v, error %v, cause %v, deadline %v %v, value %v, none %v",
		over, ctx.Err(), context.Cause(ctx), due, ok, ctx.Value(keyOfTest{}), ctx.Value("none"))
}

// A bounded context is what context.WithDeadline returns, whatever is done to it, to what
// it is derived from and to what is derived from it, in whatever order.
func TestBoundedIsAsWithDeadline(t *testing.T) {
	seed := rand.Uint64()
	never, ends := 0, map[string]int{}
	for n := range uint64(3000) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, n))
			w := newTwins(t, r)
			synctest.Wait()
			var steps []string
			for range r.IntN(15) {
				steps = append(steps, w.step(r))
			}
			if d := w.ours.made.Load(); d == nil || d == unused {
				never++
			}
			w.compare()
			ends[fmt.Sprint(context.Cause(w.ours))]++
			w.finish()
			w.compare()
			for _, end := range w.end {
				end()
			}
			w.cancel(nil)
			if t.Failed() {
				t.Fatalf("seed %d, run %d: %q", seed, n, steps)
			}
		})
	}
	for _, want := range []string{"<nil>", "context canceled", "context deadline exceeded", "the caller's time", "cause 1"} {
		if ends[want] == 0 {
			t.Errorf("none ended with %s: %v", want, ends)
		}
	}
	if never == 0 {
		t.Error("a real one was always made")
	}
}

// Nobody looked in time, so it ends with its attempt: also for who looks later.
func TestBoundedNobodyLooked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithCancelCause(t.Context())
		b := &bounded{Context: parent, until: in(now(), time.Second)}
		<-time.After(2 * time.Second)
		b.end()
		cancel(errors.New("later"))
		if a := context.Cause(b); a != context.Canceled { //nolint:errorlint // no more than that
			t.Errorf("its cause is %v", a)
		}
		child, stop := context.WithCancel(b)
		defer stop()
		if a := context.Cause(child); a != context.Canceled { //nolint:errorlint // as above
			t.Errorf("the cause of its child is %v", a)
		}
	})
}

// What fn starts may ask all of it, at any time.
func TestBoundedIsSafe(t *testing.T) {
	p := &Policy{Base: -1, Attempts: 2, Timeout: time.Hour, Budget: &Budget{Burst: -1}}
	for range 200 {
		var wg sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		_ = Do(ctx, p, func(ctx context.Context, _ int) error {
			for _, ask := range []func(){
				func() { <-ctx.Done() },
				func() {
					for ctx.Err() == nil {
						runtime.Gosched()
					}
				},
				func() { _, _ = ctx.Deadline() },
				func() { _ = ctx.Value(keyOfTest{}) },
				func() { _ = context.Cause(ctx) },
				func() { _ = fmt.Sprint(ctx) },
				func() {
					child, stop := context.WithCancel(ctx)
					defer stop()
					<-child.Done()
				},
				func() {
					ran := make(chan struct{})
					context.AfterFunc(ctx, func() { close(ran) })
					<-ran
				},
			} {
				wg.Go(ask)
			}
			return context.DeadlineExceeded
		})
		wg.Wait() // all of them were told that the attempt is over
		cancel()
	}
}

// What is derived from it needs no goroutine to be told.
func TestBoundedStartsNothing(t *testing.T) {
	parent, cancel := context.WithCancel(t.Context())
	defer cancel()
	b := &bounded{Context: parent, until: in(now(), time.Hour)}
	before := runtime.NumGoroutine()
	for range 100 {
		_, stop := context.WithCancel(b)
		defer stop()
		defer context.AfterFunc(b, func() {})()
	}
	if n := runtime.NumGoroutine() - before; n > 0 {
		t.Errorf("%d goroutines", n)
	}
	b.end()
}

func TestIn(t *testing.T) {
	for _, c := range []struct{ start, d, want time.Duration }{
		{1, 2, 3}, {-5, 2, -3}, {1, never, never}, {-1, never, never - 1}, {never, 1, never},
	} {
		if end := in(c.start, c.d); end != c.want {
			t.Errorf("%d after %d is %d", c.d, c.start, end)
		}
	}
}
