package lease_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/toolarge"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// What is larger than MaxSaved is refused before it has an effect. The answer of a call comes after its effect: without it the
// operation is unknown, however safe the call is to repeat, and the error says which call was answered.
func TestMaxSaved(t *testing.T) {
	large := strings.Repeat("x", 1000)
	calls := 0
	call := func(answer string) func(context.Context, string, []byte) (string, error) {
		return func(context.Context, string, []byte) (string, error) {
			calls++
			return answer, nil
		}
	}
	for _, tt := range []struct {
		name   string
		run    func(ctx context.Context, s *memstore.Store, r *lease.Run) (string, error)
		code   once.Code
		effect once.Effect
		state  store.State
		says   string
		calls  int
	}{
		{"a phase", func(ctx context.Context, s *memstore.Store, r *lease.Run) (string, error) {
			return lease.InTx(ctx, r, s, "a", func(ctx context.Context, tx *memstore.Tx) (string, error) {
				_, err := put("a", "1")(ctx, tx)
				return large, err
			})
		}, once.CodeFailed, once.EffectNotApplied, store.StateAbsent, "lease.Config.MaxSaved", 0},
		{"a request", func(ctx context.Context, _ *memstore.Store, r *lease.Run) (string, error) {
			return lease.CallWith(ctx, r, "charge", []byte(large), call(""), lease.CallPolicy{SafeToRepeat: true})
		}, once.CodeFailed, once.EffectNotApplied, store.StateAbsent, "lease.Config.MaxSaved", 0},
		{"an answer", func(ctx context.Context, _ *memstore.Store, r *lease.Run) (string, error) {
			return lease.CallWith(ctx, r, "charge", nil, call(large), lease.CallPolicy{SafeToRepeat: true})
		}, once.CodeUnknown, once.EffectInDoubt, store.StateUnknown, `the service has answered call "charge", but the answer is not saved`, 1},
		{"a failure", func(ctx context.Context, _ *memstore.Store, r *lease.Run) (string, error) {
			return lease.CallWith(ctx, r, "charge", nil, func(context.Context, string, []byte) (string, error) {
				calls++
				return "", &once.Failure{Code: "declined", Message: large}
			}, lease.CallPolicy{SafeToRepeat: true})
		}, once.CodeUnknown, once.EffectInDoubt, store.StateUnknown, `the service has answered call "charge", but the answer is not saved`, 1},
		{"what a check finds", func(ctx context.Context, _ *memstore.Store, r *lease.Run) (string, error) {
			return lease.CallWith(ctx, r, "charge", nil, func(context.Context, string, []byte) (string, error) {
				calls++
				return "", errors.New("timeout")
			}, lease.CallPolicy{SafeToRepeat: true, Check: lease.Check(func(context.Context, string) (string, lease.Finding, error) { return large, lease.Happened, nil })})
		}, once.CodeUnknown, once.EffectInDoubt, store.StateUnknown, `the service has answered call "charge", but the answer is not saved`, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := memstore.New()
			calls = 0
			e := once.New(lease.New(s, lease.Config{MaxSaved: 500}), once.Config{Observer: once.Discard})
			_, err := once.Do(t.Context(), e, op, func(ctx context.Context, r *lease.Run) (string, error) { return tt.run(ctx, s, r) })
			wantOutcome(t, err, tt.code, tt.effect)
			if !errors.As(err, new(*toolarge.Error)) || !strings.Contains(err.Error(), tt.says) || calls != tt.calls {
				t.Errorf("%v, %d calls", err, calls)
			}
			if _, written := s.Get("a"); written {
				t.Error("the phase stands")
			}
			wantState(t, s, tt.state)
		})
	}
}
