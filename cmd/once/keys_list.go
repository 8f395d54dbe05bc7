package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/oncelib/once/admin"
	"github.com/oncelib/once/internal/audit"
)

var keysListEntry = entry{
	name: "keys list", brief: "which keys there are",
	help: `Lists operations by scope and key. Requests and answers are not shown. The audit says that
you have looked, if you may write to it.

If there are more than --limit, the command for the next page is printed to standard
error; in JSON "next" has the value for --after. --since and --before look at when an
operation was begun, and take a time (2026-01-31T12:00:00Z) or how long ago that is by
the database's clock (90m, 72h).

--hash finds the key that logs call idempotency_key or key_hash. No index has it, so all
operations are read that the other flags leave: give --scope, and --since if you can.`,
	make: func() command { return new(keysList) },
}

type keysList struct {
	db, output, since, before, who, hash string
	filter                               admin.Filter
}

func (c *keysList) flags(fs *flag.FlagSet) {
	fs.StringVar(&c.db, "db", "", dbUsage)
	fs.StringVar(&c.filter.State, "state", "", "only in this `STATE`: running, waiting, done, unknown or expired")
	fs.StringVar(&c.filter.Scope, "scope", "", "only in this `SCOPE`")
	fs.StringVar(&c.filter.ScopePrefix, "scope-prefix", "", "only in scopes that begin with `TEXT`")
	fs.StringVar(&c.filter.Name, "name", "", "only of this `NAME`, such as \"POST /refunds\"")
	fs.StringVar(&c.since, "since", "", "only from this `TIME` on, or so long ago at most")
	fs.StringVar(&c.before, "before", "", "only before this `TIME`, or longer ago")
	fs.IntVar(&c.filter.Limit, "limit", admin.DefaultLimit, "at most `N`")
	fs.StringVar(&c.filter.After, "after", "", "go on behind this `CURSOR` of the page before")
	fs.StringVar(&c.hash, "hash", "", "only the key with this `HASH`, as logs have it: 16 hexadecimal digits")
	fs.StringVar(&c.who, "by", operator(), "`WHO`, for the audit")
	fs.StringVar(&c.output, "o", "table", "`FORM` of the output: table or json")
}

func (c *keysList) run(ctx context.Context, m *Main, _ []string) error {
	if err := checkList(c.output, c.filter.Limit); err != nil {
		return err
	}
	switch c.filter.State {
	case "", "running", "waiting", "done", "unknown", admin.StateExpired:
	default:
		return &usageError{fmt.Sprintf("there is no state %q", c.filter.State), "--state running, waiting, done, unknown, or expired"}
	}
	if c.hash != "" && !keyHash.MatchString(c.hash) {
		return &usageError{fmt.Sprintf("--hash %q is no hash of a key", c.hash), "the 16 hexadecimal digits that the log has as idempotency_key"}
	}
	db, err := m.openOperations(ctx, c.db)
	if err != nil {
		return err
	}
	defer db.Close()
	now, err := db.admin.Now(ctx)
	if err != nil {
		return db.failed("read", err)
	}
	if c.filter.Since, err = instant("--since", c.since, now); err != nil {
		return err
	}
	if c.filter.Before, err = instant("--before", c.before, now); err != nil {
		return err
	}
	list, next, err := c.list(ctx, db)
	if err != nil {
		return db.failed("read", err)
	}
	m.looked(ctx, db, admin.Access{Who: c.who, Scope: c.filter.Scope, Detail: count(len(list), "operation") + c.filters()})
	if c.output == "json" {
		return writeJSON(m.Stdout, struct {
			Operations []admin.Operation `json:"operations"`
			Next       string            `json:"next,omitempty"`
		}{append([]admin.Operation{}, list...), next})
	}
	if err := printList(m.Stdout, list); err != nil {
		return err
	}
	if next != "" {
		fmt.Fprintf(m.Stderr, "There are more. Try: the same with --after %s\n", next)
	}
	return nil
}

var keyHash = regexp.MustCompile("^[0-9a-f]{16}$")

// list returns a page, or all that have the hash.
func (c *keysList) list(ctx context.Context, db *operations) (list []admin.Operation, next string, err error) {
	if c.hash == "" {
		return db.admin.List(ctx, c.filter)
	}
	const pageSize = 1000
	filter := c.filter
	for filter.Limit = pageSize; ; filter.After = next {
		var page []admin.Operation
		page, next, err = db.admin.List(ctx, filter)
		for _, op := range page {
			if slices.Contains(audit.KeyHashes(op.Key), c.hash) {
				list = append(list, op)
			}
		}
		if err != nil || next == "" {
			return list, "", err
		}
	}
}

// filters are the flags that say what was looked for.
func (c *keysList) filters() string {
	var b strings.Builder
	for _, f := range [][2]string{
		{"state", c.filter.State}, {"scope-prefix", c.filter.ScopePrefix}, {"name", c.filter.Name}, {"since", c.since}, {"before", c.before}, {"hash", c.hash},
	} { // not --after, which has a key in it
		if f[1] != "" {
			fmt.Fprintf(&b, " --%s %s", f[0], quoted(f[1]))
		}
	}
	return b.String()
}

func printList(w io.Writer, list []admin.Operation) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "SCOPE\tKEY\tNAME\tSTATE\tRESULT\tBYTES\tSINCE\tEXPIRES\n")
	for _, op := range list {
		expires := "-"
		if op.ExpiresAt != nil {
			expires = op.ExpiresAt.Format(time.RFC3339)
		}
		result := "-"
		switch {
		case op.Result == "omitted":
			result = op.Result
		case op.Result != "":
			result = kindOf(op)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", shown(op.Scope), shown(op.Key), either(op.Name != "", shown(op.Name), "-"), op.State, result, op.ResultBytes, op.Since.Format(time.RFC3339), expires)
	}
	return t.Flush()
}

// checkList checks the flags that all lists have.
func checkList(output string, limit int) error {
	switch {
	case output != "table" && output != "json":
		return &usageError{fmt.Sprintf("there is no form %q", output), "-o table, or -o json"}
	case limit < 1:
		return &usageError{fmt.Sprintf("--limit %d", limit), fmt.Sprintf("--limit %d", admin.DefaultLimit)}
	}
	return nil
}

// instant reads a time, or how long before now it was.
func instant(flag, s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return t, &usageError{fmt.Sprintf("%s %q is no time", flag, s), flag + " 2026-01-31T12:00:00Z, or " + flag + " 72h"}
	}
	return t, nil
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
