package meter

import "github.com/oncelib/once"

// Decision is the decision of the engine about a call, in the usual words of idempotency. It says how the engine recognised the
// call. [once.Event].Effect says whether the effect is committed. New decisions may be added.
type Decision string

const (
	DecisionNewExecution  Decision = "new_execution"  // the handler has run, and its answer is committed
	DecisionConflictRetry Decision = "conflict_retry" // the handler has run more than once before the commit, or every run has met a conflict
	DecisionDBHit         Decision = "db_hit"         // done earlier: the answer comes from the database, or from a concurrent call of this process
	DecisionCacheHit      Decision = "cache_hit"      // done earlier: the answer comes from Config.Cache or Config.Shared
	DecisionInFlight      Decision = "in_flight"      // another caller executes it now
	DecisionMismatch      Decision = "mismatch"       // the key was used for another request
	DecisionStale         Decision = "stale"          // the first attempt is so old that its record may be deleted
	DecisionUnknown       Decision = "unknown"        // a call to another service was begun, and its outcome is not known
	DecisionFailed        Decision = "failed"         // the handler has failed, or its answer is not stored: a retry executes
	DecisionUnavailable   Decision = "unavailable"    // the store was not reached, or did not answer
	DecisionRefused       Decision = "refused"        // the operation is invalid, or the handler has misused its transaction
)

// DecisionOf returns the decision of the engine about a call. It returns "" for an event that is not [once.EventFinished].
func DecisionOf(e *once.Event) Decision {
	if e.Type != once.EventFinished {
		return ""
	}
	switch e.Outcome {
	case once.OutcomeExecuted, once.OutcomeDeclined:
		if e.Runs > 1 {
			return DecisionConflictRetry
		}
		return DecisionNewExecution
	case once.OutcomeReplayed, once.Outcome(once.CodeNoResult):
		if e.Cached {
			return DecisionCacheHit
		}
		return DecisionDBHit
	case once.OutcomeNotStored, once.Outcome(once.CodeFailed), once.Outcome(once.CodeAborted):
		return DecisionFailed
	case once.Outcome(once.CodeConflict):
		return DecisionConflictRetry
	case once.Outcome(once.CodeInFlight):
		return DecisionInFlight
	case once.Outcome(once.CodeMismatch):
		return DecisionMismatch
	case once.Outcome(once.CodeStale):
		return DecisionStale
	case once.Outcome(once.CodeUnknown):
		return DecisionUnknown
	case once.Outcome(once.CodeUnavailable):
		return DecisionUnavailable
	}
	return DecisionRefused
}
