package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/operate"
)

// find returns the operations under key.
func (db *operations) find(ctx context.Context, key string) ([]operate.Operation, error) {
	found, err := db.Keys.Find(ctx, key)
	if err != nil {
		return nil, db.Failed("read", err)
	}
	return found, nil
}

// timeline returns what the logs know of key: nothing, if the database is of a time
// before there were any.
func (db *operations) timeline(ctx context.Context, scope, key string, limit int) (operate.Timeline, error) {
	tl, err := db.Keys.Timeline(ctx, scope, key, limit)
	if err != nil && !cli.IsMissingTable(err) {
		return tl, db.Failed("read", err)
	}
	if tl.Attempts == nil {
		tl.Attempts = []operate.Attempt{} // for JSON
	}
	if tl.Audit == nil {
		tl.Audit = []operate.Entry{}
	}
	return tl, nil
}

// printTimeline prints attempts under their operation, or in place of it.
func printTimeline(w io.Writer, tl operate.Timeline, scope string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if n := len(tl.Attempts); n > 0 {
		last := tl.Attempts[n-1]
		fmt.Fprintf(t, "\n%s, last: %s (%s)%s\n", cli.Count(tl.Total, "attempt"), last.Outcome, last.Effect, cli.Either(n < tl.Total, fmt.Sprintf(", the last %d of them:", n), ""))
		for _, a := range tl.Attempts {
			fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\n", a.At.Format(cli.Milliseconds), cli.Shown(a.Outcome), states(a), a.Total.Round(10*time.Microsecond), about(a, scope))
		}
	} else if tl.Total > 0 {
		fmt.Fprintf(t, "\n%s\n", cli.Count(tl.Total, "attempt"))
	}
	if tl.Dropped > 0 {
		fmt.Fprintf(t, "The attempt log lacks %s at this or at other keys: it had no room for them.\n", cli.Count(int(tl.Dropped), "attempt"))
	}
	if len(tl.Audit) > 0 {
		fmt.Fprint(t, "\naudit\n")
		for _, e := range tl.Audit {
			fmt.Fprintf(t, "  %s\t%s by %s\t%s\t%s\n", e.At.Format(cli.Milliseconds), e.Action, cli.Shown(e.Who), cli.Shown(e.Reason), cli.Shown(e.Detail))
		}
	}
	return t.Flush()
}

// states is the way that an attempt has made.
func states(a operate.Attempt) string {
	return cli.Either(a.From != "", a.From, "?") + " -> " + cli.Either(a.To != "", a.To, "?")
}

// about is what else is known of an attempt.
func about(a operate.Attempt, scope string) string {
	var parts []string
	add := func(name, value string) {
		if value != "" {
			parts = append(parts, strings.TrimSpace(name+" "+cli.Shown(value)))
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
