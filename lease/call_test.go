package lease_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// fails is a handler whose call gets no answer.
func fails(policy lease.CallPolicy) func(context.Context, *lease.Run) (string, error) {
	return func(ctx context.Context, r *lease.Run) (string, error) {
		return lease.Call(ctx, r, "charge", func(context.Context, string) (string, error) { return "", errDead }, policy)
	}
}

// A service that knows keys for no time at all, as a setting that was left out says, gets no call again.
func TestDedupedForNoTime(t *testing.T) {
	s := memstore.New()
	_, err := once.Do(t.Context(), node(s), op, fails(lease.CallPolicy{DedupedFor: 0}))
	wantOutcome(t, err, once.CodeUnknown, once.EffectInDoubt)
	wantState(t, s, store.StateUnknown)
}

// A phase of database work that has the name of a call which was begun, in another version of the program, does not hide that call.
func TestTxInPlaceOfACall(t *testing.T) {
	s := memstore.New()
	_, err := once.Do(t.Context(), node(s), op, fails(lease.CallPolicy{SafeToRepeat: true}))
	wantOutcome(t, err, once.CodeFailed, once.EffectInDoubt)
	_, err = once.Do(t.Context(), node(s), op, func(ctx context.Context, r *lease.Run) (string, error) {
		return lease.InTx(ctx, r, s, "charge", put("a", "1"))
	})
	wantOutcome(t, err, once.CodeFailed, once.EffectInDoubt)
	if rec := wantState(t, s, store.StateWaiting); !rec.CallStarted {
		t.Error("the call is forgotten")
	}
}

// A request is frozen, also if the function that sends it writes into its bytes.
func TestFrozenRequest(t *testing.T) {
	s := memstore.New()
	var sent []string
	run := func(ctx context.Context, r *lease.Run) (string, error) {
		send := func(_ context.Context, _ string, request []byte) (string, error) {
			sent = append(sent, string(request))
			request[0] = 'x'
			return "", errDead
		}
		request := []byte("first")
		_, _ = lease.CallWith(ctx, r, "charge", request, send, lease.CallPolicy{SafeToRepeat: true})
		request[1] = 'x'
		return lease.CallWith(ctx, r, "charge", request, send, lease.CallPolicy{SafeToRepeat: true})
	}
	for range 2 {
		_, err := once.Do(t.Context(), node(s), op, run)
		wantOutcome(t, err, once.CodeFailed, once.EffectInDoubt)
	}
	for _, request := range sent {
		if request != "first" {
			t.Errorf("sent %q", sent)
		}
	}
}

// A failure that is not JSON cannot be saved. The handler goes on to no other phase, and does not panic.
func TestFailureThatCannotBeSaved(t *testing.T) {
	s := memstore.New()
	_, err := once.Do(t.Context(), node(s), op, func(ctx context.Context, r *lease.Run) (string, error) {
		_, _ = lease.Call(ctx, r, "charge", func(context.Context, string) (string, error) {
			return "", &once.Failure{Code: "declined", Detail: json.RawMessage("x")}
		}, lease.CallPolicy{})
		return lease.InTx(ctx, r, s, "after", put("a", "1"))
	})
	wantOutcome(t, err, once.CodeUnknown, once.EffectInDoubt)
	wantState(t, s, store.StateUnknown)
}

// Who is told that the outcome is unknown is not told to try the same key again.
func TestAdviceForUnknown(t *testing.T) {
	s := memstore.New()
	_, err := once.Do(t.Context(), node(s), op, fails(lease.CallPolicy{}))
	wantOutcome(t, err, once.CodeUnknown, once.EffectInDoubt)
	if strings.Contains(err.Error(), "with the same key") || !strings.Contains(err.Error(), "lease.Resolve") {
		t.Error(err)
	}
}

// Two phases of one name in a run of a handler, as in a loop, are a mistake: the second would get the value of the first, and not run.
func TestPhaseNamesAreUnique(t *testing.T) {
	for _, first := range []string{"call", "tx"} {
		for _, second := range []string{"call", "tx"} {
			s := memstore.New()
			runs := 0
			phase := func(ctx context.Context, r *lease.Run, kind string) error {
				if kind == "tx" {
					_, err := lease.InTx(ctx, r, s, "a", put("a", "1"))
					return err
				}
				_, err := lease.Call(ctx, r, "a", func(context.Context, string) (string, error) { return "", nil }, lease.CallPolicy{})
				return err
			}
			for range 2 {
				_, err := once.Do(t.Context(), node(s), op, func(ctx context.Context, r *lease.Run) (string, error) {
					runs++
					if err := phase(ctx, r, first); err != nil {
						t.Error(err)
					}
					return "", phase(ctx, r, second)
				})
				wantOutcome(t, err, once.CodeFailed, once.EffectInDoubt)
				if !errors.Is(err, lease.ErrMisused) {
					t.Error(err)
				}
				s.Advance(time.Second)
			}
			if runs != 2 {
				t.Errorf("%s, %s: %d runs", first, second, runs)
			}
		}
	}
}

// A call that has got no answer may be made again by the same run, and a failure is given as often as it is asked for.
func TestPhaseIsTriedAgain(t *testing.T) {
	s := memstore.New()
	calls := 0
	_, err := once.Do(t.Context(), node(s), op, func(ctx context.Context, r *lease.Run) (string, error) {
		var err error
		for range 4 {
			_, err = lease.Call(ctx, r, "charge", func(context.Context, string) (string, error) {
				if calls++; calls == 1 {
					return "", errDead
				}
				return "", &once.Failure{Code: "declined"}
			}, lease.CallPolicy{SafeToRepeat: true})
		}
		return "", err
	})
	if f := (*once.Failure)(nil); !errors.As(err, &f) || calls != 2 {
		t.Errorf("%v, %d calls", err, calls)
	}
}

// DedupedFor goes before SafeToRepeat.
func TestTheSaferPolicyCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := once.Do(t.Context(), node(memstore.New()), op, func(ctx context.Context, r *lease.Run) (string, error) {
			return lease.Call(ctx, r, "charge", func(ctx context.Context, _ string) (string, error) {
				<-ctx.Done()
				return "", errDead
			}, lease.CallPolicy{DedupedFor: time.Second, SafeToRepeat: true})
		})
		wantOutcome(t, err, once.CodeUnknown, once.EffectInDoubt)
		pass(time.Hour) // the heartbeats end
	})
}

// TestACallEndsBeforeItsKeyIsForgotten: a client that repeats a request inside the call stops before the service forgets the key.
func TestACallEndsBeforeItsKeyIsForgotten(t *testing.T) {
	const life = time.Hour
	before := time.Now()
	_, err := once.Do(t.Context(), node(memstore.New()), op, func(ctx context.Context, r *lease.Run) (string, error) {
		return lease.Call(ctx, r, "charge", func(ctx context.Context, _ string) (string, error) {
			if end, ok := ctx.Deadline(); !ok || end.Before(before.Add(life*8/10)) || end.After(time.Now().Add(life*9/10)) {
				t.Errorf("the call begins at %v, and its context ends at %v (%t)", before, end, ok)
			}
			return "", nil
		}, lease.CallPolicy{DedupedFor: life})
	})
	if err != nil {
		t.Error(err)
	}
}
