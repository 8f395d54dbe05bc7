package keys

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/operate"
)

// printTimeline prints attempts under their operation, or in place of it.
func printTimeline(w io.Writer, tl operate.Timeline, scope string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if n := len(tl.Attempts); n > 0 {
		last := tl.Attempts[n-1]
		fmt.Fprintf(t, "\n%s, last: %s (%s)%s\n", words.Count(tl.Total, "attempt"), last.Outcome, last.Effect, words.Either(n < tl.Total, fmt.Sprintf(", the last %d of them:", n), ""))
		for _, a := range tl.Attempts {
			fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\n", a.At.Format(cli.Milliseconds), words.Shown(a.Outcome), states(a), a.Total.Round(10*time.Microsecond), about(a, scope))
		}
	} else if tl.Total > 0 {
		fmt.Fprintf(t, "\n%s\n", words.Count(tl.Total, "attempt"))
	}
	if tl.Dropped > 0 {
		fmt.Fprintf(t, "The attempt log has dropped %s of this key or of other keys, because the attempt log had no room.\n", words.Count(int(tl.Dropped), "attempt"))
	}
	if len(tl.Audit) > 0 {
		fmt.Fprint(t, "\naudit\n")
		for _, e := range tl.Audit {
			fmt.Fprintf(t, "  %s\t%s by %s\t%s\t%s\n", e.At.Format(cli.Milliseconds), e.Action, words.Shown(e.Who), words.Shown(e.Reason), words.Shown(e.Detail))
		}
	}
	return t.Flush()
}

// states returns the states of the operation before and after an attempt.
func states(a operate.Attempt) string {
	return words.Either(a.From != "", a.From, "?") + " -> " + words.Either(a.To != "", a.To, "?")
}

// about returns the other known facts about an attempt.
func about(a operate.Attempt, scope string) string {
	var parts []string
	add := func(name, value string) {
		if value != "" {
			parts = append(parts, strings.TrimSpace(name+" "+words.Shown(value)))
		}
	}
	add("", a.Cause)
	if a.Attempt > 0 {
		parts = append(parts, fmt.Sprintf("try %d", a.Attempt))
	}
	if a.Runs > 1 {
		parts = append(parts, fmt.Sprintf("%d runs", a.Runs))
	}
	if a.Waited > 0 {
		parts = append(parts, fmt.Sprintf("waited %v", a.Waited.Round(10*time.Microsecond)))
	}
	add("request", a.RequestID)
	add("correlation", a.CorrelationID)
	add("on", a.Node)
	if a.Scope != scope {
		add("scope", a.Scope)
	}
	return strings.Join(parts, ", ")
}
