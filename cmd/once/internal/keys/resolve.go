package keys

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/store"
)

var resolveEntry = cli.Entry{
	Quick: true, Name: "keys resolve", Args: "KEY", Brief: "decide the outcome of an operation whose outcome is unknown",
	Help: `Decides the outcome of an operation that has called another service and was stopped before the call returned. "once keys
show KEY" prints the call, and the key with which the operation made the call. Find out the outcome of the call at the
called service, and then give one of these flags:

  --call-result FILE  the call took effect, and returned the JSON in FILE: the next retry, or a completer,
                      continues the operation after the call, and runs the code after the call
  --result FILE       the call took effect, and the operation ends here: a retry gets the JSON in FILE, and
                      the code after the call does not run
  --failed REASON     the call did not take effect and never will, and the operation ends here: a retry
                      gets REASON
  --run-again         the next retry, or a completer, makes the call again

A completer is a process that continues abandoned operations. --call is the ID of the call, as "once keys show" prints
it. The command changes nothing if the outcome of another call is unknown now, or if this call was made again or was
decided differently. So you can repeat the same command without harm: the command decides each call only one time.

The FILE of --call-result has the form in which the program stores the result of the call. If FILE has another form, the
outcome stays unknown after the next retry, and "once keys show" prints the expected form.

If clients request the operation over HTTP, give the status of the response too: --status 201 with --result, or
--status 422 with --failed. For a request that a gateway forwarded, use only --result or --failed: the client
waits for a response, and the command refuses --call-result.

If the called service has no record of the call, the call may still take effect later: the call may still be on its way.
So --run-again is safe only in two cases. In the first case, the service makes one effect for each key, and still
remembers the key of the call. The operation then makes the call again with the same key, within an hour of your
decision. In the second case, a tombstone (a cancelled payment, or a row with the key) makes the service refuse the key
of the call from now on. Then also give --voided: the operation makes the call with a new key. --failed also needs a
tombstone: without a tombstone, the call may take effect later.

If the operation has saved no phase, --run-again makes its key new again: a retry executes the whole operation. If the
operation had already taken effect, the retry makes it take effect twice.

Without --yes nothing is changed: the command only prints the change. The same commit writes the operator, the time and
the reason into the audit.`,
	Make: func() cli.Runner { return new(resolve) },
}

type resolve struct {
	db, scope string
	output    cli.Form
	decision  decision
	yes       bool
}

func (c *resolve) Flags(fs *pflag.FlagSet) {
	cli.DBFlag(fs, &c.db)
	fs.StringVar(&c.scope, "scope", "", "the `SCOPE` of the key (required)")
	c.decision.Flags(fs)
	c.output.Flag(fs)
	fs.BoolVar(&c.yes, "yes", false, "make the change; without --yes the command only prints the change")
}

func (c *resolve) Run(ctx context.Context, m *cli.Env, args []string) error {
	const try = "once keys resolve KEY --scope SCOPE --call ID --reason WHY --db URL, with --call-result FILE, --result FILE, --failed REASON or --run-again"
	switch {
	case len(args) == 0 || args[0] == "":
		return cli.Usage("the KEY is missing", try)
	case c.scope == "":
		return cli.Usage("--scope is missing", try)
	}
	if err := c.decision.check(try); err != nil {
		return err
	}
	db, err := m.Open(ctx, c.db, operate.Config{})
	if err != nil {
		return err
	}
	defer db.Close()
	v, err := db.Keys.Show(ctx, operate.KeyQuery{Key: args[0], Scope: c.scope})
	if err != nil {
		return db.Failed("read", err)
	}
	before := c.before(v.Audit)
	switch {
	case v.Found:
		return c.resolve(ctx, m, db, v, before)
	case c.isAgain(before):
		return c.print(m, operate.Decided{Resolved: true, Already: true, Effect: said(before)})
	}
	return refusal(operate.ErrNothing)
}

// before returns the last decision about the call in the audit, or nil if the call was not decided before.
func (c *resolve) before(audit []operate.Entry) *operate.Entry {
	for _, e := range audit {
		if e.Action == "resolve" && strings.Contains(e.Detail, ", call "+c.decision.call+": ") {
			return &e
		}
	}
	return nil
}

// isAgain reports whether the decision equals the previous decision in the audit. The record cannot show this, because the previous decision has made
// the key new again.
func (c *resolve) isAgain(before *operate.Entry) bool {
	return before != nil && c.decision.runAgain && strings.HasSuffix(before.Detail, ": runs again")
}

// said describes a decision in the audit: who, when and what.
func said(e *operate.Entry) string {
	return fmt.Sprintf("by %s at %s: %s", words.Shown(e.Who), e.At.Format(time.RFC3339), words.Shown(e.Detail))
}

func (c *resolve) resolve(ctx context.Context, m *cli.Env, db *cli.DB, v operate.KeyView, before *operate.Entry) error {
	op, p := *v.Operation, v.Progress
	how, err := c.decision.resolution(op)
	if err != nil {
		return err
	}
	a := operate.Decided{Resolved: c.yes, Effect: c.decision.effect(op, p), Progress: p, Operation: &op}
	switch err := c.decide(ctx, db, op, how); store.KindOf(err) {
	case store.KindOther:
		if err != nil {
			return db.Failed("change", err)
		}
		a.Already = before != nil
	case store.KindTaken:
		if !c.isAgain(before) {
			return notUnknown(op, p, sqlguard.Said(err), before)
		}
		a.Already = true
	case store.KindMisused:
		_, try := words.Advice(err.Error())
		return fmt.Errorf("you cannot resolve the operation in this way: %w. Try: %s", sqlguard.Said(err), words.Either(try != "", try, "--result FILE or --failed REASON"))
	case store.KindLost:
		return errors.New("the database has not answered, and may have written the decision. Try: run the same command again; a second run does not write the decision twice")
	default:
		return db.Failed("change", err)
	}
	switch {
	case a.Already:
		a.Resolved, a.Effect = true, said(before)
	case c.yes:
		now, err := db.Keys.Show(ctx, operate.KeyQuery{Key: op.Key, Scope: op.Scope})
		if err != nil {
			return db.Failed("read", err)
		}
		a.Operation = now.Operation // nil: the key is new again
	}
	return c.print(m, a)
}

// decide writes the decision, or without --yes only checks it.
func (c *resolve) decide(ctx context.Context, db *cli.DB, op operate.Operation, how lease.Resolution) error {
	if !c.yes {
		return db.Keys.CheckDecision(ctx, op.ID(), how)
	}
	return db.Keys.Decide(ctx, c.decision.by, op.ID(), how)
}

func (c *resolve) print(m *cli.Env, a operate.Decided) error {
	if !a.Resolved {
		if w := c.decision.warning(*a.Operation, a.Call); w != "" {
			fmt.Fprintf(m.Stderr, "WARNING: %s\n", w)
		}
		if c.decision.lacksStatus(*a.Operation) {
			fmt.Fprintln(m.Stderr, "WARNING: the operation seems to belong to an HTTP route. Without --status, HTTP clients never get this answer.")
		}
	}
	var err error
	switch {
	case c.output != cli.Table:
		err = cli.WriteJSON(m.Stdout, c.output, a)
	case a.Already:
		_, err = fmt.Fprintf(m.Stdout, "this call was resolved before, and the command has changed nothing: %s\n", a.Effect)
	case a.Resolved:
		_, err = fmt.Fprintf(m.Stdout, "resolved: %s\n", a.Effect)
	default:
		for _, phase := range phases(*a.Operation, a.Progress) {
			fmt.Fprintf(m.Stdout, "phase     %s\n", phase)
		}
		_, err = fmt.Fprintf(m.Stdout, "would do  %s\n", a.Effect)
	}
	if err == nil && !a.Resolved {
		return m.Preview("--yes")
	}
	return err
}

// notUnknown says why the decision is not written.
func notUnknown(op operate.Operation, p lease.Progress, cause error, before *operate.Entry) error {
	switch {
	case before != nil:
		return fmt.Errorf("another decision about this call was stored before, %s. The command has changed nothing. Try: once keys show KEY, which prints the present state", said(before))
	case p.CallID != "":
		why, _ := words.Advice(cause.Error()) // without its advice, which is for programmers
		why = strings.TrimSuffix(why, ".")
		return fmt.Errorf("%s. The command has changed nothing. Try: once keys show KEY, which prints the ID of the call, and then the same command with this ID in --call", why)
	case op.State == store.StateWaiting.String():
		return errors.New("the operation was stopped before its end, and needs no decision: a retry continues the operation. Try: send the request again with the same key")
	case op.State != store.StateRunning.String():
		return fmt.Errorf("the operation is %s, not unknown, so you cannot resolve the operation. Try: once keys show KEY", op.State)
	case op.LeaseUntil != nil && op.LeaseUntil.Before(op.Now):
		return errors.New("the lease of the operation has ended, and the operation needs no decision: a retry continues the operation. Try: send the request again with the same key")
	}
	return errors.New("the operation is running, not unknown. Try: run the same command again when its lease has ended; once keys show KEY prints the time")
}
