package operate

import (
	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/lease"
)

// Meaning returns sentences that explain the state of the operation to an operator who was alerted: the events so far, and the effect of a retry. p
// is its progress, from [Keys.Progress].
func (op Operation) Meaning(p lease.Progress) string {
	decides := words.Either(p.Call != nil && p.Call.Checked, "a check or a person", "a person")
	what := words.Either(p.Call != nil && p.Call.Tx, "a phase that commits by itself", "an external call")
	switch op.State {
	case "running":
		switch {
		case op.LeaseUntil == nil || op.LeaseUntil.After(op.Now):
			return "a process works on it; its lease says for how long"
		case p.CallID != "":
			return "its lease is over in the middle of a call: no retry repeats it, " + decides + " must decide"
		}
		return "its lease is over: the next retry or a completer goes on with it"
	case "waiting":
		if p.CallID != "" {
			return "it has stopped in the middle of a call: no retry repeats it, " + decides + " must decide"
		}
		return "it has stopped before its end: the next retry or a completer goes on with it"
	case "unknown":
		return what + " may have taken effect: no retry repeats it, " + decides + " must decide"
	case StateExpired:
		return op.took() + ", but its retention is over: a retry would execute again"
	case "archived":
		return op.took() + ", its retention is over and its row was deleted: a retry would execute again"
	}
	if op.Result == "omitted" {
		return op.took() + "; its answer is not kept"
	}
	return op.took() + "; a retry gets the stored answer"
}

// took says whether a finished operation took effect.
func (op Operation) took() string {
	switch op.Effect {
	case once.EffectApplied.String():
		return "it took effect, once"
	case once.EffectNotApplied.String():
		return "it was answered, once, and what it had written was rolled back"
	}
	return "it was refused, once; it is not recorded whether what it had written was kept"
}
