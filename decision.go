package once

// Decision is what the engine has decided about a call, in the words of idempotency playbooks. It
// says how the call was recognised; [Event.Effect] says what stands. The set may grow.
type Decision string

const (
	DecisionNewExecution  Decision = "new_execution"  // the handler has run, and its answer stands
	DecisionConflictRetry Decision = "conflict_retry" // the handler has run more than once before its answer stood, or every run has met a conflict
	DecisionDBHit         Decision = "db_hit"         // done earlier: the answer is the database's, or that of a concurrent call of this process
	DecisionCacheHit      Decision = "cache_hit"      // done earlier: the answer is that of Config.Cache
	DecisionInFlight      Decision = "in_flight"      // another caller executes it now
	DecisionMismatch      Decision = "mismatch"       // the key was used for another request
	DecisionStale         Decision = "stale"          // the first attempt is so old that it may be forgotten
	DecisionUnknown       Decision = "unknown"        // a call to another service was begun, and its outcome is not known
	DecisionFailed        Decision = "failed"         // the handler has failed, or its answer is one that is not stored: a retry executes
	DecisionUnavailable   Decision = "unavailable"    // the store was not reached, or has not answered
	DecisionRefused       Decision = "refused"        // the operation is invalid, or the handler has misused its transaction
)

// Decision is what the engine has decided about the call; "" of an event that is not [EventFinished].
func (e Event) Decision() Decision {
	if e.Type != EventFinished {
		return ""
	}
	switch e.Outcome {
	case OutcomeExecuted, OutcomeDeclined:
		if e.Runs > 1 {
			return DecisionConflictRetry
		}
		return DecisionNewExecution
	case OutcomeReplayed, Outcome(CodeNoResult):
		if e.Cached {
			return DecisionCacheHit
		}
		return DecisionDBHit
	case OutcomeNotStored, Outcome(CodeFailed), Outcome(CodeAborted):
		return DecisionFailed
	case Outcome(CodeConflict):
		return DecisionConflictRetry
	case Outcome(CodeInFlight):
		return DecisionInFlight
	case Outcome(CodeMismatch):
		return DecisionMismatch
	case Outcome(CodeStale):
		return DecisionStale
	case Outcome(CodeUnknown):
		return DecisionUnknown
	case Outcome(CodeUnavailable):
		return DecisionUnavailable
	}
	return DecisionRefused
}
