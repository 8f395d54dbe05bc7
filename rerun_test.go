package once_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// longestPause is what is meant by a short one, before a handler runs again.
const longestPause = 5 * time.Millisecond

// TestPauseBeforeARerun: who has lost a race does not come back at once, nor together with
// the others who have lost it, nor late; and he does not come back when no caller waits.
func TestPauseBeforeARerun(t *testing.T) {
	for name, op := range map[string]once.Operation{"operation": {Scope: "s", Key: "k"}, "plain": {}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var pauses []time.Duration
				for range 20 {
					var ran []time.Time
					_, _, err := once.New(memstore.New(), once.Config{Runs: 6}).Exec(t.Context(), op, func(context.Context, tx) (once.Answer, error) {
						ran = append(ran, time.Now())
						return once.Answer{}, &store.Error{Kind: store.KindRetry}
					})
					if once.CodeOf(err) != once.CodeConflict || len(ran) != 6 {
						t.Fatalf("%d runs: %v", len(ran), err)
					}
					for i, at := range ran[1:] {
						pauses = append(pauses, at.Sub(ran[i]))
					}
				}
				slices.Sort(pauses)
				if pauses[len(pauses)-1] > longestPause {
					t.Errorf("pauses from %v to %v", pauses[0], pauses[len(pauses)-1])
				}
				if middle := pauses[len(pauses)/2]; middle < longestPause/10 { // of 100 random ones
					t.Errorf("half of the pauses are shorter than %v", middle)
				}
				if differ := len(slices.Compact(pauses)); differ < 90 {
					t.Errorf("%d different pauses of 100", differ)
				}
			})
		})
	}
}

// TestPauseEndsWithTheContext: the caller goes while nothing is done, and no rerun is told that does not follow.
func TestPauseEndsWithTheContext(t *testing.T) {
	for name, op := range map[string]once.Operation{"operation": {Scope: "s", Key: "k"}, "plain": {}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const patience = 1 // ns: the pause is longer
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				reruns := 0
				e := once.New(memstore.New(), once.Config{Runs: 6, Observer: observe(func(e once.Event) {
					if e.Type == once.EventRerun {
						reruns++
					}
				})})
				began, runs := time.Now(), 0
				_, _, err := e.Exec(ctx, op, func(context.Context, tx) (once.Answer, error) {
					runs++
					return once.Answer{}, &store.Error{Kind: store.KindRetry}
				})
				if runs != 1 || reruns != 0 || once.EffectOf(err) != once.EffectNotApplied {
					t.Errorf("%d runs, %d told as reruns: %v", runs, reruns, err)
				}
				if took := time.Since(began); took != patience {
					t.Errorf("it has waited for %v", took)
				}
			})
		})
	}
}

// observe is an observer that is a function.
type observe func(once.Event)

func (o observe) Observe(_ context.Context, e once.Event) { o(e) }
