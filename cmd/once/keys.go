package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/operate"
)

var keysShowEntry = cli.Entry{
	Quick: true, Name: "keys show", Args: "KEY", Brief: "what happened to an idempotency key",
	Help: `Prints what the database knows about an operation: its state and since when it has it,
until when a retry is answered from the record, and what the record contains. Of leased work
it prints the phases, also after the end, and what is needed to decide a call whose outcome is
unknown. Nothing is changed, except that the audit says that you have looked, if you may write to it.
Then it prints the last attempts, if there is an attempt log, including attempts that
left no record, and what operators have done to the key.

The scope consists of the route and its caller, such as "acme POST /refunds". Without
--scope all scopes are searched. A key that is stored as a hash is found by the key
itself. A key in quotation marks, as in the log of a proxy, is also searched without them.

The exit code is 3 if nothing is known about the key, and 1 if several scopes have the key
and --scope is missing ("ambiguous" in JSON).`,
	Make: func() cli.Runner { return new(keysShow) },
}

type keysShow struct {
	db, scope, who string
	output         cli.Form
	attempts       int
}

func (c *keysShow) Flags(fs *pflag.FlagSet) {
	cli.DBFlag(fs, &c.db)
	fs.StringVar(&c.scope, "scope", "", "the `SCOPE` of the key")
	c.output.Flag(fs)
	fs.StringVar(&c.who, "by", cli.Operator(), "`WHO`, for the audit")
	fs.IntVar(&c.attempts, "attempts", 20, "show the last `N` attempts")
}

func (c *keysShow) Run(ctx context.Context, m *cli.Env, args []string) error {
	switch {
	case len(args) == 0:
		return cli.Usage("which key?", "once keys show KEY --scope SCOPE --db URL")
	case args[0] == "":
		return cli.Usage("the KEY is empty", "once keys show KEY --scope SCOPE --db URL")
	case c.attempts < 0:
		return cli.Usage(fmt.Sprintf("--attempts %d", c.attempts), "--attempts 20")
	}
	db, err := openOperations(ctx, m, c.db)
	if err != nil {
		return err
	}
	defer db.Close()
	key, found, err := c.find(ctx, db, args[0])
	if err != nil {
		return err
	}
	a := keyAnswer{Key: key, Scope: c.scope, ScopesWithKey: []string{}}
	for _, op := range found {
		a.ScopesWithKey = append(a.ScopesWithKey, op.Scope)
		if op.Scope == c.scope || c.scope == "" && len(found) == 1 {
			a.Found, a.Operation, a.Scope = true, &op, op.Scope
		}
	}
	a.Ambiguous = c.scope == "" && len(found) > 1
	if a.Timeline, err = c.timeline(ctx, db, &a, args[0]); err != nil {
		return err
	}
	if a.Found {
		if a.Progress, err = db.progress(ctx, *a.Operation); err != nil {
			return err
		}
	}
	looked(ctx, m, db, c.who, operate.Access{Scope: a.Scope, Key: a.Key, Detail: cli.Count(len(found), "operation")})
	if c.output != cli.Table {
		err = cli.WriteJSON(m.Stdout, c.output, a)
	} else {
		err = a.print(m.Stdout, found, db.Source)
	}
	switch {
	case err == nil && a.Ambiguous:
		return cli.ErrSaid
	case err == nil && !a.Found:
		return cli.ErrNothing
	}
	return err
}

// find looks for the key as it was given, and if that is not in the scope, for what
// stands between its quotation marks: a header has them, the record has not.
func (c *keysShow) find(ctx context.Context, db *operations, key string) (string, []operate.Operation, error) {
	found, err := db.find(ctx, key)
	bare, quotes := unquoted(key)
	if err != nil || !quotes || c.has(found) {
		return key, found, err
	}
	other, err := db.find(ctx, bare)
	if len(found) == 0 && len(other) > 0 || c.has(other) {
		return bare, other, err
	}
	return key, found, err
}

// timeline returns what the logs know of the key of a, or of what stands between the
// quotation marks of asked if there is no record that tells which is meant.
func (c *keysShow) timeline(ctx context.Context, db *operations, a *keyAnswer, asked string) (operate.Timeline, error) {
	if a.Ambiguous {
		return operate.Timeline{Attempts: []operate.Attempt{}, Audit: []operate.Entry{}}, nil
	}
	tl, err := db.timeline(ctx, a.Scope, a.Key, c.attempts)
	if bare, quotes := unquoted(asked); err == nil && quotes && !a.Found && tl.Total == 0 {
		a.Key = bare
		return db.timeline(ctx, a.Scope, bare, c.attempts)
	}
	return tl, err
}

func (c *keysShow) has(found []operate.Operation) bool {
	return slices.ContainsFunc(found, func(op operate.Operation) bool { return c.scope == "" || op.Scope == c.scope })
}

// unquoted reads key as a String of RFC 9651.
func unquoted(key string) (bare string, ok bool) {
	if len(key) < 3 || key[0] != '"' || key[len(key)-1] != '"' {
		return "", false
	}
	return strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(key[1 : len(key)-1]), true
}

// keyAnswer is what is known. Its JSON form is a contract with scripts.
type keyAnswer struct {
	Found         bool               `json:"found"`
	Ambiguous     bool               `json:"ambiguous"` // several scopes have it, and none was asked for
	Key           string             `json:"key"`
	Scope         string             `json:"scope"`
	Operation     *operate.Operation `json:"operation,omitempty"`
	ScopesWithKey []string           `json:"scopes_with_key"`

	lease.Progress
	operate.Timeline
}

func (a keyAnswer) print(w io.Writer, found []operate.Operation, db cli.Source) error {
	switch {
	case a.Found:
		if err := printOperation(w, *a.Operation, a.Progress); err != nil {
			return err
		}
		if err := printTimeline(w, a.Timeline, a.Scope); err != nil || a.CallID == "" {
			return err
		}
		return a.printDecisions(w, db)
	case a.Scope == "" && len(found) > 0:
		fmt.Fprintf(w, "The key %q is known in %d scopes:\n\n", a.Key, len(found))
	case len(found) > 0:
		fmt.Fprintf(w, "Nothing is known of the key %q in the scope %q: there it was never executed to\nthe end, or has expired, or is being executed at this moment: ask again. It is known in:\n\n", a.Key, a.Scope)
	default:
		fmt.Fprintf(w, `Nothing is known of the key %q, in any scope.

That may be for one of four reasons:
  - it was never executed to the end: what has failed, was killed, or was answered by a 409 or 429 leaves no record;
  - it is being executed at this moment: ask again;
  - it was executed so long ago that it has expired and was swept away;
  - it is kept elsewhere: is %s the right database?
`, a.Key, db.Name)
		return printTimeline(w, a.Timeline, a.Scope)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, op := range found {
		fmt.Fprintf(t, "  %s\t%s\tsince %s\n", cli.Shown(op.Scope), op.State, op.Since.Format(time.RFC3339))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if err := printTimeline(w, a.Timeline, a.Scope); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nTry: once keys show %s --scope %s --db %s\n", cli.Quoted(a.Key), cli.Quoted(found[0].Scope), db.Paste)
	return err
}

// printDecisions prints the command that decides what is unknown, for an operator to paste and to complete.
func (a keyAnswer) printDecisions(w io.Writer, db cli.Source) error {
	what, ways := "this operation", resultWay+failedWay+"  --run-again          its key is new again: a retry executes\n"
	if a.Call != nil {
		what, ways = called(a.Call)+cli.Either(a.Call.Key != "", ", key "+a.Call.Key, ""), callResultWay+resultWay+failedWay+runAgainWay
	}
	_, err := fmt.Fprintf(w, "\nTry: when you have found out what became of %s:\n  once keys resolve %s --scope %s --call %s --db %s --reason WHY\nwith one of these. It shows what it would do, until you add --yes:\n%s",
		what, cli.Quoted(a.Key), cli.Quoted(a.Operation.Scope), a.CallID, db.Paste, ways)
	return err
}
