package lazy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// twins are a Context and the standard one that it must behave as, with what was derived
// from each of them.
type twins struct {
	*testing.T

	ours   *Context
	stop   context.CancelCauseFunc // of the standard one
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
		due, stop := context.WithTimeoutCause(parent, time.Duration(r.IntN(10))*time.Second+250*time.Millisecond, errors.New("the parent's time"))
		parent, w.end = due, append(w.end, stop)
	}
	w.ours = &Context{Parent: parent, Until: Never}
	std, stop := context.WithCancelCause(parent)
	if r.IntN(3) > 0 {
		d := time.Duration(r.IntN(10)) * time.Second
		w.ours.Until = Now().Add(d)
		due, cancel := context.WithDeadline(parent, time.Now().Add(d))
		std, stop = due, func(error) { cancel() }
	}
	w.stop = stop
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

// late looks if time is over, before something else can end it: without, it
// may say that this was first, as one whose timer is late does.
func (w *twins) late() {
	if w.ours.Until.Over() {
		_ = w.ours.Err()
	}
}

// finish ends both.
func (w *twins) finish(cause error) {
	w.late()
	w.ours.Cancel(cause)
	w.stop(cause)
}

func (w *twins) step(r *rand.Rand) string {
	defer synctest.Wait() // for timers and functions
	switch op := r.IntN(12); op {
	case 0:
		w.late()
		w.cancel(fmt.Errorf("cause %d", r.IntN(3)))
		return "the parent is cancelled"
	case 1:
		if r.IntN(2) == 0 {
			w.finish(nil)
			return "end"
		}
		w.finish(errOwn)
		return "end with a cause"
	case 2, 3:
		for range r.IntN(16) {
			w.late()
			<-time.After(250 * time.Millisecond)
		}
		return "time passes"
	case 4:
		w.both(r, func(side int, ctx context.Context) {
			child, cancel := context.WithCancel(ctx)
			w.end = append(w.end, cancel)
			w.all[side] = append(w.all[side], child)
		})
		return "WithCancel"
	case 5:
		d := time.Duration(r.IntN(12))*time.Second + 100*time.Millisecond // no two timers at once
		w.both(r, func(side int, ctx context.Context) {
			child, cancel := context.WithTimeoutCause(ctx, d, errors.New("the child's time"))
			w.end = append(w.end, cancel)
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

// A Context is what package context returns, whatever is done to it, to what it is derived
// from and to what is derived from it, in whatever order.
func TestIsAsMadeAtOnce(t *testing.T) {
	seed := rand.Uint64()
	asleep, ends := 0, map[string]int{}
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
				asleep++
			}
			w.compare()
			ends[fmt.Sprint(context.Cause(w.ours))]++
			w.finish(nil)
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
	for _, want := range []string{"<nil>", "context canceled", "context deadline exceeded", "the parent's time", "cause 1", errOwn.Error()} {
		if ends[want] == 0 {
			t.Errorf("none ended with %s: %v", want, ends)
		}
	}
	if asleep == 0 {
		t.Error("a real one was always made")
	}
}
