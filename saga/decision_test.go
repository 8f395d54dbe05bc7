package saga_test

import (
	"context"
	"errors"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// swapping is a store whose next Swap does something before or behind it; behind it, its answer is lost.
type swapping struct {
	*memstore.Store

	before, behind func()
}

func (s *swapping) Unwrap() any { return s.Store }

func (s *swapping) Swap(ctx context.Context, c store.Change) (store.Record, error) {
	before, behind := s.before, s.behind
	s.before, s.behind = nil, nil
	if before != nil {
		before()
	}
	rec, err := s.Store.Swap(ctx, c)
	if behind != nil {
		behind()
		return store.Record{}, &store.Error{Kind: store.KindLost, Err: errors.New("simulated")}
	}
	return rec, err
}

// TestDecisionIsAboutOneCall: a person says that a call was not made, and it is made again under another key, whose outcome is not known either. What
// was decided about the first call is not done to the second one: if its answer was lost, if another person was faster, or if it names the first one.
func TestDecisionIsAboutOneCall(t *testing.T) {
	for name, effect := range map[string]once.Effect{"answer lost": once.EffectInDoubt, "overtaken": once.EffectNotApplied, "named": once.EffectNotApplied} {
		t.Run(name, func(t *testing.T) {
			in(t, func(g fixture) {
				var keys []string
				charge := saga.Call("charge", func(_ context.Context, key, _ string) (string, error) {
					keys = append(keys, key)
					return "", errTimeout
				})
				d := saga.New("test", flowOf(charge), charge)
				isStuck := func() {
					_, err := g.do(d)
					g.wantStuck(err, `"charge"`)
				}
				isStuck()
				s, code := &swapping{Store: g.db}, once.CodeConflict
				decision := saga.Decision{Action: saga.ActionForce, Step: "charge"}
				other := func() {
					if err := g.decide(decision); err != nil {
						g.Error(err)
					}
					isStuck()
				}
				switch name {
				case "answer lost":
					s.behind = isStuck
				case "overtaken":
					s.before = other
				case "named":
					other()
					decision.Call, code = keys[0], once.CodeMismatch
				}
				if _, err := saga.Decide(g.Context(), s, sagaID, decision); once.CodeOf(err) != code || once.EffectOf(err) != effect {
					g.Errorf("%v, want %s", err, code)
				}
				isStuck()
				if len(keys) != 2 {
					g.Errorf("%d calls: %q", len(keys), keys)
				}
				decision.Call = keys[1]
				if err := g.decide(decision); err != nil {
					g.Error(err)
				}
			})
		})
	}
}
