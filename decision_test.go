package once_test

import (
	"context"
	"errors"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// TestDecisionOfEveryOutcome: each way in which a call can end has its decision.
func TestDecisionOfEveryOutcome(t *testing.T) {
	finished := func(o once.Outcome, runs int, cached bool) once.Event {
		return once.Event{Type: once.EventFinished, Outcome: o, Runs: runs, Cached: cached}
	}
	for _, tt := range []struct {
		event once.Event
		want  once.Decision
	}{
		{finished(once.OutcomeExecuted, 1, false), once.DecisionNewExecution},
		{finished(once.OutcomeExecuted, 2, false), once.DecisionConflictRetry},
		{finished(once.OutcomeDeclined, 1, false), once.DecisionNewExecution},
		{finished(once.OutcomeDeclined, 3, false), once.DecisionConflictRetry},
		{finished(once.OutcomeReplayed, 0, false), once.DecisionDBHit},
		{finished(once.OutcomeReplayed, 1, false), once.DecisionDBHit}, // another call was faster
		{finished(once.OutcomeReplayed, 0, true), once.DecisionCacheHit},
		{finished(once.OutcomeNotStored, 1, false), once.DecisionFailed},
		{finished(once.Outcome(once.CodeFailed), 1, false), once.DecisionFailed},
		{finished(once.Outcome(once.CodeAborted), 1, false), once.DecisionFailed},
		{finished(once.Outcome(once.CodeNoResult), 0, false), once.DecisionDBHit},
		{finished(once.Outcome(once.CodeNoResult), 0, true), once.DecisionCacheHit},
		{finished(once.Outcome(once.CodeConflict), 3, false), once.DecisionConflictRetry},
		{finished(once.Outcome(once.CodeInFlight), 0, false), once.DecisionInFlight},
		{finished(once.Outcome(once.CodeMismatch), 0, false), once.DecisionMismatch},
		{finished(once.Outcome(once.CodeStale), 0, false), once.DecisionStale},
		{finished(once.Outcome(once.CodeUnknown), 0, false), once.DecisionUnknown},
		{finished(once.Outcome(once.CodeUnavailable), 0, false), once.DecisionUnavailable},
		{finished(once.Outcome(once.CodeInvalid), 0, false), once.DecisionRefused},
		{finished(once.Outcome(once.CodeMisuse), 1, false), once.DecisionRefused},
		{once.Event{Type: once.EventRerun, Runs: 2}, ""},
	} {
		if got := tt.event.Decision(); got != tt.want {
			t.Errorf("%s, runs %d, cached %v: %q, want %q", tt.event.Outcome, tt.event.Runs, tt.event.Cached, got, tt.want)
		}
	}
}

// TestReplayFromCacheIsTold: a replay says whether Config.Cache has answered it.
func TestReplayFromCacheIsTold(t *testing.T) {
	for _, size := range []int64{0, 1 << 20} {
		r := new(recorder)
		e := once.New(memstore.New(), once.Config{Observer: r, Cache: size})
		op := once.Operation{Scope: "s", Key: "k"}
		for _, want := range []once.Decision{once.DecisionNewExecution, map[bool]once.Decision{true: once.DecisionCacheHit, false: once.DecisionDBHit}[size > 0]} {
			_, err := once.Do(t.Context(), e, op, charge("k"))
			must(t, err)
			if got := r.last(t); got.Decision() != want || got.Cached != (want == once.DecisionCacheHit) {
				t.Errorf("cache of %d bytes: %s, cached %v, want %s", size, got.Decision(), got.Cached, want)
			}
		}
	}
}

// deadlocking is a store whose handlers meet what it takes for a deadlock.
type deadlocking struct{ *memstore.Store }

var errDeadlock = &store.Error{Kind: store.KindRetry, Err: errors.New("deadlock")}

func (deadlocking) IsDeadlock(err error) bool { return errors.Is(err, errDeadlock) }

// TestDeadlocksAreTold: each run that a deadlock has ended is told once, also the last one, and one of a Join is
// not told twice.
func TestDeadlocksAreTold(t *testing.T) {
	r := new(recorder)
	e := once.New[tx](deadlocking{memstore.New()}, once.Config{Observer: r})
	deadlocks := func() (n int) {
		for _, ev := range r.take() {
			if ev.Deadlock {
				n++
			}
		}
		return n
	}
	fail := func(context.Context, tx) (string, error) { return "", errDeadlock }
	_, err := once.Do(t.Context(), e, once.Operation{Scope: "s", Key: "1"}, fail)
	if n := deadlocks(); n != once.DefaultRuns || once.CodeOf(err) != once.CodeConflict {
		t.Errorf("%d deadlocks of %d runs: %v", n, once.DefaultRuns, err)
	}
	_, err = once.Do(t.Context(), e, once.Operation{Scope: "s", Key: "2"}, func(ctx context.Context, tx tx) (string, error) {
		res, err := once.Join(ctx, e, tx, once.Operation{Scope: "s", Key: "3"}, fail)
		return res.Value, err
	})
	if n := deadlocks(); n != once.DefaultRuns {
		t.Errorf("%d deadlocks of %d runs with a Join: %v", n, once.DefaultRuns, err)
	}
	_, err = once.Do(t.Context(), e, once.Operation{Scope: "s", Key: "4"}, func(context.Context, tx) (string, error) {
		return "", &store.Error{Kind: store.KindRetry, Err: errors.New("serialization failure")}
	})
	if n := deadlocks(); n != 0 {
		t.Errorf("%d deadlocks, want none: %v", n, err)
	}
}
