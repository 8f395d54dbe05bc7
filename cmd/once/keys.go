package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

var keysShowEntry = entry{
	name: "keys show", args: "KEY", brief: "what happened to an idempotency key",
	help: `Prints what the database knows of an operation: its state, since when, until when
a retry is answered from the record, and what was kept of it. Nothing is changed.

The scope is that of the route and its caller, such as "acme POST /refunds". Without
--scope every scope that has the key is looked at. Keys that are stored as hashes are
found by the key itself.

The exit code is 1 if nothing is known of the key.`,
	make: func() command { return new(keysShow) },
}

type keysShow struct{ db, scope, output string }

func (c *keysShow) flags(fs *flag.FlagSet) {
	fs.StringVar(&c.db, "db", "", dbUsage)
	fs.StringVar(&c.scope, "scope", "", "the `SCOPE` of the key")
	fs.StringVar(&c.output, "o", "text", "`FORM` of the output: text or json")
}

func (c *keysShow) run(ctx context.Context, m *Main, args []string) error {
	switch {
	case len(args) == 0:
		return &usageError{"which key?", "once keys show KEY --scope SCOPE --db URL"}
	case c.output != "text" && c.output != "json":
		return &usageError{fmt.Sprintf("there is no form %q", c.output), "-o text, or -o json"}
	}
	db, err := openDatabase(ctx, c.db, false)
	if err != nil {
		return err
	}
	defer db.Close()
	found, err := db.operations(ctx, args[0])
	if err != nil {
		return err
	}
	a := keyAnswer{Key: args[0], Scope: c.scope, ScopesWithKey: []string{}}
	for _, op := range found {
		a.ScopesWithKey = append(a.ScopesWithKey, op.Scope)
		if op.Scope == c.scope || c.scope == "" && len(found) == 1 {
			a.Found, a.Operation, a.Scope = true, &op, op.Scope
		}
	}
	if c.output == "json" {
		e := json.NewEncoder(m.Stdout)
		e.SetIndent("", "  ")
		err = e.Encode(a)
	} else {
		err = a.print(m.Stdout, found, db.name)
	}
	if err == nil && !a.Found {
		return errSaid
	}
	return err
}

// keyAnswer is what is known. Its JSON form is a contract with scripts.
type keyAnswer struct {
	Found         bool       `json:"found"`
	Key           string     `json:"key"`
	Scope         string     `json:"scope"`
	Operation     *operation `json:"operation,omitempty"`
	ScopesWithKey []string   `json:"scopes_with_key"`
}

func (a keyAnswer) print(w io.Writer, found []operation, db string) error {
	switch {
	case a.Found:
		return a.Operation.print(w)
	case a.Scope == "" && len(found) > 0:
		fmt.Fprintf(w, "The key %q is known in %d scopes:\n\n", a.Key, len(found))
	case len(found) > 0:
		fmt.Fprintf(w, "Nothing is known of the key %q in the scope %q. It is known in:\n\n", a.Key, a.Scope)
	default:
		fmt.Fprintf(w, `Nothing is known of the key %q, in any scope.

That proves one of three things:
  - no operation with this key has ever committed in this database. If somebody has
    tried, nothing of it took effect, and a retry with the same key will execute;
  - or one has, so long ago that its retention is over and it was swept away;
  - or its keys or its records are kept elsewhere: is %s the right database?
`, a.Key, db)
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, op := range found {
		fmt.Fprintf(t, "  %s\t%s\tsince %s\n", op.Scope, op.State, op.Since.Format(time.RFC3339))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nTry: once keys show %s --scope %s --db %s\n", quoted(a.Key), quoted(found[0].Scope), quoted(db))
	return err
}

// quoted makes s one word of a shell.
func quoted(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@%+=", r)
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// nullTime scans what the databases keep of a time: a timestamp, or milliseconds
// since 1970.
type nullTime struct{ at *time.Time }

func (n *nullTime) Scan(v any) error {
	var t time.Time
	switch v := v.(type) {
	case nil:
		return nil
	case time.Time:
		t = v
	case int64:
		t = time.UnixMilli(v)
	default:
		return fmt.Errorf("a time stored as %T", v)
	}
	t = t.UTC().Truncate(time.Millisecond)
	n.at = &t
	return nil
}

var _ sql.Scanner = (*nullTime)(nil)
