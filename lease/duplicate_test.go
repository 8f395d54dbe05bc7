package lease_test

import (
	"context"
	"errors"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// A service that has applied a call before answers "duplicate", with the existing result or without it: the operation gets
// that result, and the duplicate is never its failure.
func TestDuplicateYieldsTheExistingResult(t *testing.T) {
	var (
		errTimeout = errors.New("timeout")
		duplicate  = &once.Failure{Code: "PROVIDER.duplicate"}
	)
	find := func(findings ...lease.Finding) lease.CallCheck { // the last one is the answer from then on
		return lease.Check(func(context.Context, string) (string, lease.Finding, error) {
			f := findings[0]
			if len(findings) > 1 {
				findings = findings[1:]
			}
			return "charge 1", f, nil
		})
	}
	for _, tt := range []struct {
		name     string
		answer   string // to the second request
		err      error
		policy   lease.CallPolicy
		attempts int
	}{
		{"with the result", "charge 1", nil, lease.CallPolicy{SafeToRepeat: true}, 2},
		{"without it", "", duplicate, lease.CallPolicy{SafeToRepeat: true, Check: find(lease.Unclear, lease.Happened)}, 2},
		{"found later", "", duplicate, lease.CallPolicy{SafeToRepeat: true, Check: find(lease.Unclear, lease.Unclear, lease.Happened)}, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, keys, calls := memstore.New(), map[string]bool{}, 0
			run := func(ctx context.Context, r *lease.Run) (string, error) {
				return lease.Call(ctx, r, "charge", func(_ context.Context, key string) (string, error) {
					keys[key] = true
					if calls++; calls == 1 {
						return "", errTimeout
					}
					return tt.answer, tt.err
				}, tt.policy)
			}
			for range tt.attempts - 1 {
				_, err := once.Do(t.Context(), node(s), op, run)
				wantOutcome(t, err, once.CodeFailed, once.EffectInDoubt)
			}
			r, err := once.Do(t.Context(), node(s), op, run)
			if err != nil || r.Value != "charge 1" || len(keys) != 1 || calls != tt.attempts {
				t.Errorf("%+v, %v, %d keys, %d calls", r, err, len(keys), calls)
			}
			wantState(t, s, store.StateDone)
		})
	}
	t.Run("nothing finds it", func(t *testing.T) {
		s := memstore.New()
		_, err := once.Do(t.Context(), node(s), op, func(ctx context.Context, r *lease.Run) (string, error) {
			return lease.Call(ctx, r, "charge", func(context.Context, string) (string, error) { return "", duplicate }, lease.CallPolicy{})
		})
		wantOutcome(t, err, once.CodeUnknown, once.EffectInDoubt)
		wantState(t, s, store.StateUnknown)
	})
	t.Run("it was voided", func(t *testing.T) { // no final answer: the service can be asked anew, under another key
		s, keys := memstore.New(), map[string]bool{}
		run := func(ctx context.Context, r *lease.Run) (string, error) {
			return lease.Call(ctx, r, "charge", func(_ context.Context, key string) (string, error) {
				if keys[key] = true; len(keys) == 1 {
					return "", duplicate
				}
				return "charge 2", nil
			}, lease.CallPolicy{Check: find(lease.Voided)})
		}
		_, err := once.Do(t.Context(), node(s), op, run)
		if once.CodeOf(err) == once.CodeFailed && once.EffectOf(err) == once.EffectApplied {
			t.Errorf("stored as final: %v", err)
		}
		r, err := once.Do(t.Context(), node(s), op, run)
		if err != nil || r.Value != "charge 2" || r.Replayed || len(keys) != 2 {
			t.Errorf("%+v, %v, %d keys", r, err, len(keys))
		}
	})
}
