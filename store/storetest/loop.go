package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
)

// loop lets the N-th point of a flow fail, for N = 1, 2, and so on, until the flow passes fewer points. After each
// fault the answer to the caller must be true. Further calls with the same key must end in one effect, one record
// and one answer.
type loop[TX any] struct {
	*suite[TX]
	mu    sync.Mutex
	seen  map[Point]int // how often each point has failed
	doubt map[bool]int  // calls that ended in doubt, by whether they had been applied
}

func testFaults[TX any](t *testing.T, u *suite[TX]) {
	u.Brief = u.Brief || testing.Short()
	l := &loop[TX]{suite: u, seen: map[Point]int{}, doubt: map[bool]int{}}
	t.Run("Loop", func(t *testing.T) {
		for _, f := range flows(u) {
			t.Run(f.name, func(t *testing.T) {
				u.parallel(t)
				points := l.each(t, f, false)
				l.each(t, f, true)
				for _, p := range []Point{CommitLostLater, SwapLostLater} {
					for _, calls := range []int{2, 3, 1000} { // each of the caller's calls may be the last one before the change
						l.strike(t, f, Plan{At: []Point{p}, Later: calls})
					}
				}
				pairs := 0
				for n := 1; n <= points && !u.Brief; n++ {
					for m := 1; l.strike(t, f, Plan{Nth: []int{n, m}}) == 2; m++ {
						pairs++
					}
				}
				t.Logf("%d points, %d pairs of points", points, pairs)
			})
		}
	})
	if t.Failed() {
		return
	}
	wanted := []Point{
		BeginDown, BeginRetry, CommitDown, CommitRetry, CommitTaken, CommitLostUndone, CommitLostApplied, CommitLostLater,
		RollbackDown, SwapDown, SwapRetry, SwapTaken, SwapLostUndone, SwapLostApplied, SwapLostLater,
	}
	if !u.Brief {
		wanted = append(wanted, ReadDown) // the engine reads to settle a doubt, so only after another fault
	}
	if u.joins {
		wanted = append(wanted, JoinDown)
	}
	for _, p := range wanted {
		if l.seen[p] == 0 {
			t.Errorf("the test proves nothing: it has never reached the point %q", p)
		}
	}
	if l.doubt[true] == 0 || l.doubt[false] == 0 {
		t.Errorf("the test proves nothing unless both occur: an outcome in doubt was applied %d times and was not applied %d times", l.doubt[true], l.doubt[false])
	}
}

// each runs a flow once for each point that the flow passes, and returns the number of points.
func (l *loop[TX]) each(t *testing.T, f flow[TX], outage bool) int {
	for n := 1; n < 1000; n++ {
		if l.strike(t, f, Plan{Nth: []int{n}, Outage: outage}) == 0 {
			return n - 1
		}
	}
	t.Fatal("the test has not ended after 1000 points")
	return 0
}

// strike runs a flow under a plan and returns how many points have failed.
func (l *loop[TX]) strike(t *testing.T, f flow[TX], p Plan) int {
	t.Helper()
	id, ctx := newID(), bounded(t)
	op := operation(id)
	patient := op // the server may still work on a call that its caller has given up
	patient.Wait = time.Minute
	clean := trip[TX]{t: t, e: l.engine(l.peer, once.Config{Observer: once.Discard}), op: patient}
	if f.prepared {
		if r, err := f.call(ctx, clean); !answered(err) {
			t.Fatal(r, err)
		}
	}
	rivals := 0
	p.Rival = func(ctx context.Context) {
		rivals++
		if r, err := f.call(ctx, clean); !answered(err) {
			t.Errorf("the concurrent call has returned %+v, error %v", r, err)
		}
	}
	settle := time.Minute
	if p.Outage {
		settle = 50 * time.Millisecond // the outage lasts longer
	}
	runs := 3 // the default
	if p.Later > 0 {
		runs = 1 // another run would find the delayed change
	}
	faults := NewFaults(l.s)
	faults.Arm(p)
	r, err := f.call(ctx, trip[TX]{t: t, e: l.engine(faults, once.Config{Settle: settle, Runs: runs, Observer: once.Discard}), op: op, misbehave: true})
	hits := faults.Heal()

	rec, effects := l.read(t, id), l.Effects(t, l.s, id.Key)
	says := fmt.Sprintf("after %q (outage %t) it says %s", hits, p.Outage, outcome(r, err))
	if wrong := f.judge(err, rec, effects, f.prepared || rivals > 0); wrong != "" {
		t.Errorf("%s: %s; record %+v, error %v", says, wrong, rec, err)
	}
	l.note(hits, err, rec.State == store.StateDone)

	again, err2 := f.call(ctx, trip[TX]{t: t, e: l.engine(l.s, once.Config{Observer: once.Discard}), op: patient})
	last, err3 := f.call(ctx, clean)
	switch {
	case !answered(err2), !answered(err3), !last.Replayed:
		t.Errorf("%s; then %s, then %s: %v, %v", says, outcome(again, err2), outcome(last, err3), err2, err3)
	case answer(again, err2) != answer(last, err3), answered(err) && answer(r, err) != answer(last, err3):
		t.Errorf("%s; the answers were %q, %q, %q", says, answer(r, err), answer(again, err2), answer(last, err3))
	}
	if n := l.Effects(t, l.s, id.Key); n != f.effects {
		t.Errorf("%s; afterwards the store has %d effects, want %d", says, n, f.effects)
	}
	l.wantState(t, id, store.StateDone)
	return len(hits)
}

// judge returns why the outcome of a call is false, or "" if it is true. before says whether another caller had done the
// operation.
func (f flow[TX]) judge(err error, rec store.Record, effects int, before bool) string {
	applied := rec.State == store.StateDone
	want := 0
	if applied {
		want = f.effects
	}
	switch effect := once.EffectOf(err); {
	case !applied && rec.State != store.StateAbsent:
		return "half a record"
	case effects != want:
		return fmt.Sprintf("%d effects with a record that is %s", effects, rec.State)
	case answered(err) && !applied:
		return "answered, but not applied"
	case answered(err):
		return ""
	case effect == once.EffectNotApplied && applied != before:
		return "not applied, but it was"
	case effect == once.EffectApplied && !applied:
		return "applied, but it was not"
	}
	switch code := once.CodeOf(err); code {
	case once.CodeUnavailable, once.CodeConflict, once.CodeFailed, once.CodeAborted:
		return ""
	default:
		return "no call of this flow should fail with " + string(code)
	}
}

func (l *loop[TX]) note(hits []Point, err error, applied bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range hits {
		l.seen[p]++
	}
	if err != nil && once.EffectOf(err) == once.EffectInDoubt {
		l.doubt[applied]++
	}
}

// answered reports whether a call has returned the operation's answer.
func answered(err error) bool {
	var f *once.Failure
	return err == nil || errors.As(err, &f)
}

// answer returns what a caller got. Every run of a handler returns another value, so equal answers come from one run.
func answer(r once.Result[string], err error) string {
	if f := (*once.Failure)(nil); errors.As(err, &f) {
		return f.Code + " " + f.Message
	}
	return r.Value
}
