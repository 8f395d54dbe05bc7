// Package keys has the commands of once keys: operations by their idempotency keys.
package keys

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/internal/base/wire"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/operate"
)

// Noun is once keys.
var Noun = cli.Noun{
	Name: "keys", Brief: "operations by their idempotency keys", Group: cli.GroupOperate,
	Entries: []cli.Entry{showEntry, listEntry, forgetEntry, resolveEntry, exportEntry, replayEntry},
}

var showEntry = cli.Entry{
	Quick: true, Name: "keys show", Args: "KEY", Brief: "print the history of an idempotency key",
	Help: `Prints the record of an operation in the database: its state and the time at which this state began, the time until
which a retry gets the stored result, and the contents of the record. For leased work (work in several phases) the
command prints the phases, even if the work has ended. The command also prints the facts that you need to decide a call
whose outcome is unknown. If the service has an attempt log, the command also prints the last attempts, including
attempts that left no record. At the end the command prints the actions of operators on the key. The command records in
the audit that you have read the operation, if the database user may write to the audit. The command changes nothing
else.

The scope consists of the caller and the route, such as "acme POST /refunds". Without --scope the command searches all
scopes. If the database stores keys as hashes, give the key itself: the command computes the hash. If KEY is in
quotation marks, as in the log of a proxy, the command also searches for the key without the quotation marks.

With --events the command also prints the effects of the operation. For each event that the operation has added to the
outbox, the command prints the ID, the state, the deliveries, and the inboxes of this database that have stored the
event. If the operation is a saga, the command prints the steps of the saga. The state "gone" means that the event was
delivered and deleted from the outbox: run "once inbox show ID" in the database of the consumer. An ordered inbox
(inbox.InOrder or inbox.LatestVersion) stores no IDs of events, so after an event is deleted from the outbox, nothing
connects the event with an ordered inbox. If the outbox has a Config.RetainDelivered, it keeps delivered events, and
"once outbox show ID" prints the topic, the key and the number of each event. To search ordered inboxes, give the topic,
the key and the number of the event to "once inbox show".

The exit code is 3 if the database has no record of the key. The exit code is 1 if several scopes have the key and
--scope is missing ("ambiguous" in JSON).`,
	Make: func() cli.Runner { return new(show) },
}

type show struct {
	db, scope, who string
	output         cli.Form
	attempts       int
	events         bool
}

func (c *show) Flags(fs *pflag.FlagSet) {
	cli.DBFlag(fs, &c.db)
	fs.StringVar(&c.scope, "scope", "", "the `SCOPE` of the key")
	c.output.Flag(fs)
	fs.StringVar(&c.who, "by", cli.Operator(), "the name (`WHO`) of the operator who runs this command; the audit records the name")
	fs.BoolVar(&c.events, "events", false, "also print the effects of the operation: the events of the operation, or the steps of the saga")
	fs.IntVar(&c.attempts, "attempts", 20, "print the last `N` attempts")
}

func (c *show) Run(ctx context.Context, m *cli.Env, args []string) error {
	switch {
	case len(args) == 0:
		return cli.Usage("the KEY is missing", "once keys show KEY --scope SCOPE --db URL")
	case args[0] == "":
		return cli.Usage("the KEY is empty", "once keys show KEY --scope SCOPE --db URL")
	case c.attempts < 0:
		return cli.Usage(fmt.Sprintf("--attempts %d must not be negative", c.attempts), "--attempts 20")
	}
	db, err := m.Open(ctx, c.db, operate.Config{})
	if err != nil {
		return err
	}
	defer db.Close()
	v, err := db.Keys.Show(ctx, operate.KeyQuery{Key: args[0], Scope: c.scope, Attempts: c.attempts})
	if err != nil {
		return db.Failed("read", err)
	}
	looked(ctx, m, db, c.who, operate.Access{Scope: v.Scope, Key: v.Key, Detail: words.Count(len(v.Operations), "operation")})
	if c.events && v.Found {
		return c.follow(ctx, m, db, v)
	}
	if c.output != cli.Table {
		err = cli.WriteJSON(m.Stdout, c.output, v)
	} else {
		err = printView(m.Stdout, v, db.Source)
	}
	switch {
	case err == nil && v.Ambiguous:
		return cli.ErrSaid
	case err == nil && !v.Found:
		return cli.ErrNothing
	}
	return err
}

// keyURN begins the instance of a problem about a key. The hash of the key follows.
const keyURN = "urn:once:key:"

func printView(w io.Writer, v operate.KeyView, db cli.Source) error {
	switch {
	case v.Found:
		if err := Print(w, *v.Operation, v.Progress); err != nil {
			return err
		}
		// Without the ID of a call there is nothing to decide.
		if err := printTimeline(w, v.Timeline, v.Scope); err != nil || v.CallID == "" {
			return err
		}
		return printDecisions(w, v, db)
	case v.Scope == "" && len(v.Operations) > 0:
		fmt.Fprintf(w, "%[2]d scopes have the key %[1]q:\n\n", v.Key, len(v.Operations))
	case len(v.Operations) > 0:
		fmt.Fprintf(w, "The scope %[2]q has no operation with the key %[1]q now. If an operation had this key before, the operation\nhas failed, has expired, or is being executed at this moment. These other scopes have the key:\n\n", v.Key, v.Scope)
	default:
		if hash := strings.TrimPrefix(v.Key, keyURN); keyHash.MatchString(hash) {
			fmt.Fprintf(w, "The database has no operation with the key %q. This text looks like the hash of a key, which problems and log lines contain.\n\nTry: once keys list --hash %s --db %s\n", v.Key, hash, db.Paste)
			return printTimeline(w, v.Timeline, v.Scope)
		}
		fmt.Fprintf(w, `The database has no operation with the key %q.

There are four possible reasons:
  - the operation did not complete: an operation that failed, was killed, or was answered with 409 or 429 leaves no record;
  - the operation is being executed at this moment: run this command again;
  - the operation has expired, and a sweep has deleted its record;
  - the operation is in another database: check that %s is the right database.
`, v.Key, db.Name)
		return printTimeline(w, v.Timeline, v.Scope)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, op := range v.Operations {
		fmt.Fprintf(t, "  %s\t%s\tsince %s\n", words.Shown(op.Scope), op.State, op.Since.Format(time.RFC3339))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if err := printTimeline(w, v.Timeline, v.Scope); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nTry: once keys show %s --scope %s --db %s\n", words.Quoted(v.Key), words.Quoted(v.Operations[0].Scope), db.Paste)
	return err
}

// printDecisions prints the command that decides an unknown outcome, for an operator to paste and to complete.
func printDecisions(w io.Writer, v operate.KeyView, db cli.Source) error {
	what, ways := "this operation", resultWay+failedWay+"  --run-again          the key becomes new again: a retry executes the operation\n"
	if v.Call != nil {
		what, ways = called(v.Call)+words.Either(v.Call.Key != "", ", key "+v.Call.Key, ""), callResultWay+resultWay+failedWay+runAgainWay
	}
	if v.Call != nil && wire.IsForward(v.Operation.Name, v.Call.Phase) {
		ways = forwardWays + runAgainWay
	}
	_, err := fmt.Fprintf(w, "\nTry: find out the outcome of %s, and then run\n  once keys resolve %s --scope %s --call %s --db %s --reason WHY\nwith one of the following flags. Without --yes the command only prints a preview:\n%s",
		what, words.Quoted(v.Key), words.Quoted(v.Operation.Scope), v.CallID, db.Paste, ways)
	return err
}
