package lease_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// TestStoppedWorkWaits: work that has stopped behind a phase has no holder and is under no lease: nothing can renew it, the count of
// what waits has it, and of many callers that come for it at once one goes on behind the phase.
func TestStoppedWorkWaits(t *testing.T) {
	s := memstore.New()
	var runs, seconds atomic.Int32
	handler := func(stops bool) func(context.Context, *lease.Run) (string, error) {
		return func(ctx context.Context, r *lease.Run) (string, error) {
			if _, err := lease.InTx(ctx, r, s, "a", func(ctx context.Context, tx *memstore.Tx) (string, error) {
				runs.Add(1)
				return put("a", "1")(ctx, tx)
			}); err != nil || stops {
				return "", errDead
			}
			seconds.Add(1)
			return lease.InTx(ctx, r, s, "b", put("b", "1"))
		}
	}
	_, err := once.Do(t.Context(), node(s), op, handler(true))
	wantOutcome(t, err, once.CodeFailed, once.EffectInDoubt)
	rec := wantState(t, s, store.StateWaiting)
	if !rec.Idle() || rec.LeaseExpired || rec.RecoveryPoint != "a" {
		t.Errorf("%+v", rec)
	}
	renewed, err := s.Renew(t.Context(), []store.Hold{{ID: id, Fence: rec.Fence, Nonce: rec.Nonce}}, time.Hour)
	if len(renewed) > 0 || err != nil {
		t.Errorf("renewed: %v, %v", renewed, err)
	}
	if b, err := s.Backlog(t.Context()); b.Waiting.Number != 1 || b.Running.Number != 0 || err != nil {
		t.Errorf("%+v, %v", b, err)
	}
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			again := op
			again.Wait = time.Minute
			if r, err := once.Do(t.Context(), node(s), again, handler(false)); err != nil || r.Value != "1" {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
	callers.Wait()
	wantState(t, s, store.StateDone)
	if runs.Load() != 1 || seconds.Load() != 1 {
		t.Errorf("phase a has run %d times, and what follows it %d times", runs.Load(), seconds.Load())
	}
}

// TestWaitingInACallThatIsForgotten: work waits in a call that its service knows for an hour. When that is over, no owner may make the
// call again: its outcome is unknown to the next caller and to a person, also before anything has stored that.
func TestWaitingInACallThatIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		_, err := once.Do(t.Context(), node(s), op, fails(lease.CallPolicy{DedupedFor: time.Hour}))
		wantOutcome(t, err, once.CodeFailed, once.EffectInDoubt)
		wantState(t, s, store.StateWaiting)
		<-time.After(2 * time.Hour)
		rec := wantState(t, s, store.StateWaiting)
		if p, err := lease.ProgressOf(id, rec); err != nil || p.CallID == "" {
			t.Errorf("a person has nothing to decide: %+v, %v", p, err)
		}
		_, err = once.Do(t.Context(), node(s), op, func(context.Context, *lease.Run) (string, error) {
			t.Error("the handler runs")
			return "", nil
		})
		wantOutcome(t, err, once.CodeUnknown, once.EffectInDoubt)
		wantState(t, s, store.StateUnknown)
	})
}

// TestLateOwnerAnswersItsDuplicate: a duplicate in the process of an owner whose lease is over is told to come again, and not that the outcome is
// unknown: the owner may still store its answer. A caller of another node stores that it is unknown, and then the owner cannot.
func TestLateOwnerAnswersItsDuplicate(t *testing.T) {
	t.Parallel()
	for _, taken := range []bool{false, true} {
		s := memstore.New()
		e := node(s)
		do := func(e *once.Engine[*lease.Run], fn func(context.Context, string) (string, error)) (once.Result[string], error) {
			return once.Do(t.Context(), e, op, func(ctx context.Context, r *lease.Run) (string, error) {
				return lease.Call(ctx, r, "charge", fn, lease.CallPolicy{})
			})
		}
		again := func(context.Context, string) (string, error) {
			t.Error("the call is made again")
			return "", nil
		}
		_, err := do(e, func(context.Context, string) (string, error) {
			s.Advance(2 * time.Minute)
			_, err := do(e, again)
			wantOutcome(t, err, once.CodeInFlight, once.EffectNotApplied)
			if told := (*once.Error)(nil); !errors.As(err, &told) || told.After <= 0 {
				t.Errorf("it is not told when to come again: %v", err)
			}
			if taken {
				_, err := do(node(s), again)
				wantOutcome(t, err, once.CodeUnknown, once.EffectInDoubt)
			}
			return "paid", nil
		})
		if taken {
			wantOutcome(t, err, once.CodeFailed, once.EffectInDoubt)
			wantState(t, s, store.StateUnknown)
			continue
		}
		must(t, err)
		if r, err := do(e, again); err != nil || !r.Replayed || r.Value != "paid" {
			t.Errorf("%+v, %v", r, err)
		}
	}
}
