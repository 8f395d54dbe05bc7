package meter

import (
	"testing"

	"github.com/oncelib/once"
)

// TestDecisionOfEveryOutcome: each way in which a call can end has its decision.
func TestDecisionOfEveryOutcome(t *testing.T) {
	finished := func(o once.Outcome, runs int, cached bool) once.Event {
		return once.Event{Type: once.EventFinished, Outcome: o, Runs: runs, Cached: cached}
	}
	for _, tt := range []struct {
		event once.Event
		want  Decision
	}{
		{finished(once.OutcomeExecuted, 1, false), DecisionNewExecution},
		{finished(once.OutcomeExecuted, 2, false), DecisionConflictRetry},
		{finished(once.OutcomeDeclined, 1, false), DecisionNewExecution},
		{finished(once.OutcomeDeclined, 3, false), DecisionConflictRetry},
		{finished(once.OutcomeReplayed, 0, false), DecisionDBHit},
		{finished(once.OutcomeReplayed, 1, false), DecisionDBHit}, // another call was faster
		{finished(once.OutcomeReplayed, 0, true), DecisionCacheHit},
		{finished(once.OutcomeNotStored, 1, false), DecisionFailed},
		{finished(once.Outcome(once.CodeFailed), 1, false), DecisionFailed},
		{finished(once.Outcome(once.CodeAborted), 1, false), DecisionFailed},
		{finished(once.Outcome(once.CodeNoResult), 0, false), DecisionDBHit},
		{finished(once.Outcome(once.CodeNoResult), 0, true), DecisionCacheHit},
		{finished(once.Outcome(once.CodeConflict), 3, false), DecisionConflictRetry},
		{finished(once.Outcome(once.CodeInFlight), 0, false), DecisionInFlight},
		{finished(once.Outcome(once.CodeMismatch), 0, false), DecisionMismatch},
		{finished(once.Outcome(once.CodeStale), 0, false), DecisionStale},
		{finished(once.Outcome(once.CodeUnknown), 0, false), DecisionUnknown},
		{finished(once.Outcome(once.CodeUnavailable), 0, false), DecisionUnavailable},
		{finished(once.Outcome(once.CodeInvalid), 0, false), DecisionRefused},
		{finished(once.Outcome(once.CodeMisuse), 1, false), DecisionRefused},
		{once.Event{Type: once.EventRerun, Runs: 2}, ""},
	} {
		if got := DecisionOf(&tt.event); got != tt.want {
			t.Errorf("%s, runs %d, cached %v: %q, want %q", tt.event.Outcome, tt.event.Runs, tt.event.Cached, got, tt.want)
		}
	}
}
