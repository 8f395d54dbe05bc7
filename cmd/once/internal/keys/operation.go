package keys

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/store"
)

// Print prints an operation, for a person.
func Print(w io.Writer, op operate.Operation, p lease.Progress) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) { fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	line("key", "%s", words.Shown(op.Key))
	line("scope", "%s", words.Shown(op.Scope))
	if op.Name != "" {
		line("name", "%s", words.Shown(op.Name))
	}
	line("state", "%s: %s", op.State, op.Meaning(p))
	line("since", "%s", at(op, &op.Since))
	if op.ExpiresAt != nil {
		line("expires", "%s", at(op, op.ExpiresAt))
	} else if op.State == "done" {
		line("expires", "never: the record is kept for ever")
	}
	if op.LeaseUntil != nil {
		line("lease until", "%s", at(op, op.LeaseUntil))
	}
	switch op.Result {
	case "":
	case "omitted":
		line("result", "%s: too large to store, or erased%s", kindOf(op), words.Either(op.State == store.StateDone.String(), "; a retry gets an error, and does not execute", ""))
	default:
		line("result", "%s, %d bytes", kindOf(op), op.ResultBytes)
	}
	line("fence", "%d", op.Fence)
	for i, phase := range phases(op, p) {
		line(words.Either(i == 0, "phases", ""), "%s", phase)
	}
	if len(p.Phases) == 0 && op.RecoveryPoint != "" {
		line("reached", "recovery point %s", words.Shown(op.RecoveryPoint))
	}
	switch call := p.Call; {
	case call != nil && call.Tx && unfinished(op):
		line("phase", "the phase %s has ended its transaction itself, and its writes may be committed", words.Shown(call.Phase))
	case call != nil && unfinished(op):
		line("calling", "%s, with the key %s at the service", words.Shown(call.Phase), call.Key)
		line("then", "%s", next(call))
		if call.Refused != "" {
			line("refused", "the program has refused the result that an operator has entered for the call: %s", words.Shown(call.Refused))
		}
	case call == nil && op.CallStarted:
		line("calling", "since its last stored phase, the operation has begun a call to another service")
	}
	if p.CallID != "" {
		line("call id", "%s (for once keys resolve --call)", p.CallID)
	}
	line("fingerprint", "%s", words.Either(op.Fingerprint != "", op.Fingerprint, "none: the library does not compare retries with the first request"))
	line("request", "%s", words.Either(op.Captured, "captured, encrypted", "not captured"))
	if op.Trace != "" {
		line("trace", "%s", words.Shown(op.Trace))
	}
	return t.Flush()
}

// mostPhases is the largest number of phases that are shown; the last phases are shown.
const mostPhases = 20

// phases are the phases of an operation, each with its outcome.
func phases(op operate.Operation, p lease.Progress) (list []string) {
	if n := len(p.Phases) - mostPhases; n > 0 {
		list = append(list, fmt.Sprintf("(%d earlier phases)", n))
	}
	for _, e := range p.Phases[max(0, len(p.Phases)-mostPhases):] {
		what := "done"
		switch {
		case e.Failure != "":
			what = "failed with " + words.Shown(e.Failure)
		case e.ByHand:
			what = "done: an operator has entered the result of the phase"
		}
		list = append(list, words.Shown(e.Phase)+": "+what)
	}
	if p.Call != nil {
		what := "the call has begun, and its outcome is unknown"
		switch {
		case !unfinished(op):
			what = "the call had begun when an operator ended the operation"
		case p.CallID == "":
			what = "begun"
		}
		list = append(list, words.Shown(p.Call.Phase)+": "+what)
	}
	return list
}

// next returns the possible next steps if the answer to a begun call does not arrive.
func next(call *lease.Begun) string {
	var can []string
	switch {
	case call.Repeats && call.Until.IsZero():
		can = append(can, "the call can be made again with this key")
	case call.Repeats:
		can = append(can, "the call can be made again with this key until "+call.Until.Format(time.RFC3339))
	}
	if call.Checked {
		can = append(can, "the program can ask the called service for the outcome of the call")
	}
	return words.Either(len(can) > 0, strings.Join(can, "; "), "only an operator can find out the outcome of the call")
}

// at returns a time, and its distance from the time of the database.
func at(op operate.Operation, t *time.Time) string {
	d := op.Now.Sub(*t)
	if d < 0 {
		return fmt.Sprintf("%s (in %s)", t.Format(time.RFC3339), words.Span(-d))
	}
	return fmt.Sprintf("%s (%s ago)", t.Format(time.RFC3339), words.Span(d))
}

// kind is the kind of a result: an answer over HTTP, or the result of a function.
func kindOf(op operate.Operation) string {
	if op.Status != 0 {
		return fmt.Sprintf("HTTP %d", op.Status)
	}
	return op.Result
}

// unfinished reports whether an operation is not done.
func unfinished(op operate.Operation) bool {
	return op.State == store.StateRunning.String() || op.State == store.StateWaiting.String() || op.State == store.StateUnknown.String()
}
