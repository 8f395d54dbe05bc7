package lease_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store/memstore"
	"github.com/oncelib/once/store/storetest"
)

// states keeps the states before and after each call.
type states []string

func (s *states) Observe(_ context.Context, e once.Event) {
	if e.Type == once.EventFinished {
		*s = append(*s, fmt.Sprintf("%s: %s -> %s", e.Outcome, e.From, e.To))
	}
}

// TestEventsTellTheStatesOfLeasedWork: the last event of a call has the state in which the call has found the operation, and the state in
// which the call has left it.
func TestEventsTellTheStatesOfLeasedWork(t *testing.T) {
	phases := func(s *memstore.Store, n int, end error) func(context.Context, *lease.Run) (string, error) {
		return func(ctx context.Context, r *lease.Run) (string, error) {
			for i := range n {
				if _, err := lease.InTx(ctx, r, s, fmt.Sprint(i), put("a", "1")); err != nil {
					return "", err
				}
			}
			return "", end
		}
	}
	charge := func(ctx context.Context, r *lease.Run) (string, error) {
		return lease.Call(ctx, r, "charge", func(context.Context, string) (string, error) { return "", errDead }, lease.CallPolicy{})
	}
	type handler = func(context.Context, *lease.Run) (string, error)
	for name, tt := range map[string]struct {
		runs func(s *memstore.Store) []handler
		want []string
	}{
		"a result":              {func(s *memstore.Store) []handler { return []handler{phases(s, 1, nil)} }, []string{"executed: absent -> done"}},
		"no phase has finished": {func(s *memstore.Store) []handler { return []handler{phases(s, 0, errDead)} }, []string{"failed: absent -> absent"}},
		"phases have finished": {
			func(s *memstore.Store) []handler {
				return []handler{phases(s, 3, errDead), phases(s, 3, errDead), phases(s, 3, nil), phases(s, 3, nil)}
			},
			[]string{"failed: absent -> waiting", "failed: waiting -> waiting", "executed: waiting -> done", "replayed: done -> done"},
		},
		"a call has no answer": {func(*memstore.Store) []handler { return []handler{charge, charge} }, []string{"unknown: absent -> unknown", "unknown: unknown -> unknown"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, got := memstore.New(), new(states)
			e := once.New(lease.New(s, lease.Config{TTL: time.Minute}), once.Config{Observer: got})
			for _, run := range tt.runs(s) {
				_, _ = once.Do(t.Context(), e, op, run) // the events are the subject
			}
			if !slices.Equal(*got, tt.want) {
				t.Errorf("%q, want %q", *got, tt.want)
			}
		})
	}
}

// TestStateThatIsNotWrittenIsNotTold: the write that would make the operation unknown has failed, so the state after the call is not known.
func TestStateThatIsNotWrittenIsNotTold(t *testing.T) {
	s, got := memstore.New(), new(states)
	faults := storetest.NewFaults[*memstore.Tx](s)
	e := once.New(lease.New(faults, lease.Config{TTL: time.Minute}), once.Config{Observer: got})
	_, _ = once.Do(t.Context(), e, op, func(ctx context.Context, r *lease.Run) (string, error) {
		return lease.Call(ctx, r, "charge", func(context.Context, string) (string, error) {
			faults.Arm(storetest.Plan{At: []storetest.Point{storetest.SwapDown}})
			return "", errDead
		}, lease.CallPolicy{})
	})
	if want := []string{"unknown: absent -> "}; !slices.Equal(*got, want) || len(faults.Heal()) != 1 {
		t.Errorf("%q, want %q", *got, want)
	}
}
