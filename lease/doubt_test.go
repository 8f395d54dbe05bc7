package lease_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
	"github.com/oncelib/once/store/storetest"
)

// That a call was not sent this time says nothing about the time before: its intent stands, with the request that may have
// been sent, and with the time until which the service knows the key.
func TestNotSentAfterASend(t *testing.T) {
	s := memstore.New()
	timeout := errors.New("timeout")
	ask := func(request string, answer error) (sent string, err error) {
		_, err = once.Do(t.Context(), node(s), op, func(ctx context.Context, r *lease.Run) (string, error) {
			return lease.CallWith(ctx, r, "charge", []byte(request), func(_ context.Context, _ string, request []byte) (string, error) {
				sent = string(request)
				return "paid", answer
			}, lease.CallPolicy{DedupedFor: time.Hour})
		})
		return sent, err
	}
	_, err := ask("first", timeout)
	wantOutcome(t, err, once.CodeFailed, once.EffectInDoubt)
	_, err = ask("second", lease.NotSent(timeout))
	wantOutcome(t, err, once.CodeFailed, once.EffectInDoubt)
	if rec := wantState(t, s, store.StateWaiting); !rec.CallStarted {
		t.Error("the intent is gone")
	}
	sent, err := ask("third", nil)
	must(t, err)
	if sent != "first" {
		t.Errorf("%q is sent, and before it was %q", sent, "first")
	}
}

// A phase whose answer was lost may have been applied and then taken over, or may be applied later: its caller is
// not told that nothing was applied.
func TestLostPhaseIsInDoubt(t *testing.T) {
	for _, then := range []string{"another one takes over", "the next run panics"} {
		t.Run(then, func(t *testing.T) {
			s := memstore.New()
			faults := storetest.NewFaults[*memstore.Tx](s)
			takeOver := func(context.Context) {
				s.Advance(2 * time.Minute)
				other := &mortal{Store: s}
				defer func() { _ = recover() }()
				_, err := once.Do(t.Context(), node(other), op, func(ctx context.Context, r *lease.Run) (string, error) {
					if _, err := lease.InTx(ctx, r, other, "a", put("a", "2")); err != nil {
						return "", err
					}
					other.dead = true
					panic(errDead)
				})
				t.Errorf("the other one is told %v", err)
			}
			faults.Arm(storetest.Plan{At: []storetest.Point{storetest.CommitLostLater}})
			runs := 0
			_, err := once.Do(t.Context(), node(faults), op, func(ctx context.Context, r *lease.Run) (v string, err error) {
				defer func() {
					if recover() != nil {
						err = errDead
					}
				}()
				return lease.InTx(ctx, r, faults, "a", func(ctx context.Context, tx *memstore.Tx) (string, error) {
					if runs++; runs == 2 {
						if then == "the next run panics" {
							panic(errDead)
						}
						faults.Arm(storetest.Plan{At: []storetest.Point{storetest.CommitTaken}, Rival: takeOver})
					}
					return put("a", "1")(ctx, tx)
				})
			})
			faults.Heal()
			if a, _ := s.Get("a"); a != "1" || once.EffectOf(err) == once.EffectNotApplied {
				t.Errorf("%q is written, the caller is told %v (%s)", a, err, once.EffectOf(err))
			}
		})
	}
}

// A handler that returns before its phase has ended, which is a bug, does not keep the operation for as long as its process lives.
func TestPhaseThatIsLeftOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		returned := make(chan struct{})
		_, err := once.Do(t.Context(), node(s), op, func(ctx context.Context, r *lease.Run) (string, error) {
			entered := make(chan struct{})
			go func() {
				_, _ = lease.InTx(ctx, r, s, "a", func(ctx context.Context, tx *memstore.Tx) (string, error) {
					close(entered)
					<-returned
					return put("a", "1")(ctx, tx)
				})
			}()
			<-entered
			return "", nil
		})
		wantOutcome(t, err, once.CodeUnknown, once.EffectInDoubt)
		close(returned)
		<-time.After(3 * time.Minute)
		if rec, err := s.Read(t.Context(), id); err != nil || rec.State != store.StateRunning || !rec.LeaseExpired {
			t.Errorf("%+v, %v", rec, err)
		}
		<-time.After(time.Hour) // no longer than Config.MaxDuration
	})
}

// A handler that goes on as if its call had not failed gets nowhere: no other phase runs, and its result is not stored.
func TestSwallowedCall(t *testing.T) {
	s := memstore.New()
	_, err := once.Do(t.Context(), node(s), op, func(ctx context.Context, r *lease.Run) (string, error) {
		_, err := lease.Call(ctx, r, "charge", func(context.Context, string) (string, error) { return "", errors.New("timeout") }, lease.CallPolicy{})
		if !errors.Is(err, lease.ErrUnknown) {
			t.Error(err)
		}
		if _, err := lease.InTx(ctx, r, s, "b", put("b", "1")); !errors.Is(err, lease.ErrUnknown) {
			t.Errorf("another phase: %v", err)
		}
		return "done", nil
	})
	wantOutcome(t, err, once.CodeUnknown, once.EffectInDoubt)
	wantState(t, s, store.StateUnknown)
	if _, is := s.Get("b"); is {
		t.Error("another phase is committed")
	}

	s = memstore.New() // nor is another call made, also if the first one can be made again
	_, err = once.Do(t.Context(), node(s), op, func(ctx context.Context, r *lease.Run) (string, error) {
		_, err := lease.Call(ctx, r, "charge", func(context.Context, string) (string, error) { return "", errors.New("timeout") }, lease.CallPolicy{SafeToRepeat: true})
		if !errors.Is(err, lease.ErrUnknown) {
			t.Error(err)
		}
		_, err = lease.Call(ctx, r, "refund", func(context.Context, string) (string, error) {
			t.Error("another call is made")
			return "", nil
		}, lease.CallPolicy{SafeToRepeat: true})
		if !errors.Is(err, lease.ErrUnknown) {
			t.Errorf("another call: %v", err)
		}
		return "done", nil
	})
	wantOutcome(t, err, once.CodeFailed, once.EffectInDoubt)
	wantState(t, s, store.StateWaiting)
}
