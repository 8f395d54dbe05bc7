package lease_test

import (
	"context"
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

// TestACallThatIsMadeAgainIsNotCalledUnknown: the error of a call without an answer says that the call is made again, and until when, if its
// policy allows that. Only the error of a call that waits for a decision says that the outcome is unknown.
func TestACallThatIsMadeAgainIsNotCalledUnknown(t *testing.T) {
	again := `call "pay" has no answer yet, and is made again with the same key`
	unclear := lease.Check(func(context.Context, string) (string, lease.Finding, error) { return "", lease.Unclear, nil })
	for name, tt := range map[string]struct {
		policy lease.CallPolicy
		want   string
		state  store.State
	}{
		"for a time":             {lease.CallPolicy{DedupedFor: 10 * time.Hour}, again + " until 2000-01-01T09:00:00Z: ", store.StateWaiting},
		"for ever":               {lease.CallPolicy{SafeToRepeat: true}, again + ": ", store.StateWaiting},
		"after an unclear check": {lease.CallPolicy{SafeToRepeat: true, Check: unclear}, again + ": ", store.StateWaiting},
		"never":                  {lease.CallPolicy{}, `call "pay": the outcome is unknown: `, store.StateUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memstore.New()
				var told error
				_, _ = once.Do(t.Context(), node(s), op, func(ctx context.Context, r *lease.Run) (string, error) {
					_, told = lease.Call(ctx, r, "pay", func(context.Context, string) (string, error) { return "", errDead }, tt.policy)
					return "", told
				})
				if !strings.HasPrefix(told.Error(), tt.want) || !errors.Is(told, lease.ErrUnknown) || !errors.Is(told, errDead) {
					t.Errorf("%v, want %s", told, tt.want)
				}
				if rec, err := s.Read(t.Context(), store.ID{Scope: op.Scope, Key: op.Key}); err != nil || rec.State != tt.state {
					t.Errorf("%s, %v, want %s", rec.State, err, tt.state)
				}
				pass(time.Hour) // the heartbeats end
			})
		})
	}
}
