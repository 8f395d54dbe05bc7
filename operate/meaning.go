package operate

import (
	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/lease"
)

// Meaning returns sentences that explain the state of the operation to an operator who was alerted: the history of the operation so far, and the
// effect of a retry. The parameter p is the progress of the operation, as [Keys.Progress] returns it.
func (op Operation) Meaning(p lease.Progress) string {
	decides := "no retry repeats the call, and an operator must decide its outcome"
	if p.Call != nil && p.Call.Checked {
		decides = "the next retry or a completer asks the other service for the outcome; an operator can also decide the outcome"
	}
	what := words.Either(p.Call != nil && p.Call.Tx, "a phase that commits its own transaction", "a call to another service")
	switch op.State {
	case "running":
		switch {
		case op.LeaseUntil == nil || op.LeaseUntil.After(op.Now):
			return "a process is executing the operation"
		case p.CallID != "":
			return "the lease has ended during a call to another service, and the call may have taken effect: " + decides
		}
		return "the lease has ended: the next retry or a completer continues the operation"
	case "waiting":
		if p.CallID != "" {
			return "the operation has stopped during a call to another service, and the call may have taken effect: " + decides
		}
		return "the operation has stopped before its end: the next retry or a completer continues the operation"
	case "unknown":
		return what + " may have taken effect: " + decides
	case StateExpired:
		return op.took() + ", but its retention has ended: a retry would execute again"
	case "archived":
		return op.took() + ", but its retention has ended and its row was deleted: a retry would execute again"
	}
	if op.Result == "omitted" {
		return op.took() + "; the database no longer has its answer"
	}
	return op.took() + "; a retry gets the stored answer"
}

// took says whether a finished operation took effect.
func (op Operation) took() string {
	switch op.Effect {
	case once.EffectApplied.String():
		return "the operation took effect one time"
	case once.EffectNotApplied.String():
		return "the operation got an answer, and its writes were rolled back"
	}
	return "the operation was refused, and the database does not show whether its writes were kept"
}
