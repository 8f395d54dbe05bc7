package main

import (
	"context"
	"errors"
	"flag"
	"fmt"

	"github.com/oncelib/once/admin"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store"
)

var keysResolveEntry = entry{
	quick: true, name: "keys resolve", args: "KEY", brief: "decide an operation whose outcome is unknown",
	help: `Decides an operation whose outcome is unknown: it has called another service, and has stopped
before it knew what became of the call. once keys show KEY names the call and the key under
which the service got it. Find out there what has happened, then say one of:

  --result FILE      it has happened: a retry gets what is in FILE, as JSON
  --failed REASON    it has not happened and never will: a retry is told REASON
  --run-again        the next retry, or a completer, makes the call again

If clients ask for the operation over HTTP, say the status of the answer as well: --status 201
with --result, --status 422 with --failed.

That the service knows nothing of a call does not prove that it has not happened: it may still
be on its way. So --run-again has one effect only in two cases. Either the service dedupes by
the key of the call and still knows it: the call is made again under the same key, within an
hour. Or the service was made to refuse this key from now on, by a tombstone (a payment that
was cancelled, a row with the key): then add --voided, and the call gets a new key. The same
is true of --failed: without a tombstone, the call may happen after all.

If nothing was saved of the operation, --run-again makes its key new again: a retry executes.
If it has taken effect, it does so twice.

Without --yes nothing is changed: it is shown what would be. Who has decided, when and why is
in the audit, in the same commit.`,
	make: func() command { return new(keysResolve) },
}

type keysResolve struct {
	db, scope, output string
	decision          decision
	yes               bool
}

func (c *keysResolve) flags(fs *flag.FlagSet) {
	fs.StringVar(&c.db, "db", "", dbUsage)
	fs.StringVar(&c.scope, "scope", "", "the `SCOPE` of the key, required")
	c.decision.flags(fs)
	fs.StringVar(&c.output, "o", "text", "`FORM` of the output: text or json")
	fs.BoolVar(&c.yes, "yes", false, "do it")
}

func (c *keysResolve) run(ctx context.Context, m *Main, args []string) error {
	const try = "once keys resolve KEY --scope SCOPE --reason WHY --db URL, with --result FILE, --failed REASON or --run-again"
	switch {
	case len(args) == 0 || args[0] == "":
		return &usageError{"which key?", try}
	case c.scope == "":
		return &usageError{"--scope is missing", try}
	case c.output != "text" && c.output != "json":
		return &usageError{fmt.Sprintf("there is no form %q", c.output), "-o text, or -o json"}
	}
	if err := c.decision.check(try); err != nil {
		return err
	}
	db, err := m.openOperations(ctx, c.db)
	if err != nil {
		return err
	}
	defer db.Close()
	found, err := db.find(ctx, args[0])
	if err != nil {
		return err
	}
	for _, op := range found {
		if op.Scope == c.scope {
			return c.resolve(ctx, m, db, op)
		}
	}
	return refusal(admin.ErrNothing)
}

// resolveAnswer is what was or would be done. Its JSON form is a contract with scripts.
type resolveAnswer struct {
	Resolved  bool             `json:"resolved"` // false: --yes is missing
	Effect    string           `json:"effect"`   // what it means for a retry
	Call      *lease.Begun     `json:"call,omitempty"`
	Operation *admin.Operation `json:"operation"` // as it is now
}

func (c *keysResolve) resolve(ctx context.Context, m *Main, db *operations, op admin.Operation) error {
	ops, ok := store.As[store.Operations](db.store)
	if !ok {
		return fmt.Errorf("%s keeps no operations that could be resolved", db.name)
	}
	call, err := db.begun(ctx, op)
	if err != nil {
		return err
	}
	how, err := c.decision.resolution(op)
	if err != nil {
		return err
	}
	if !c.yes {
		ops = unchanged{ops}
		how.Who = "" // it needs the store itself
	}
	switch err := lease.Resolve(ctx, ops, store.ID{Scope: op.Scope, Key: op.Key}, how); store.KindOf(err) {
	case store.KindOther:
		if err != nil {
			return db.failed("change", err)
		}
	case store.KindTaken:
		return notUnknown(op)
	case store.KindMisused:
		_, try := advice(err.Error())
		return fmt.Errorf("the operation cannot be resolved so: %w. Try: %s", ownError(err), either(try != "", try, "--result FILE or --failed REASON"))
	case store.KindLost:
		return errors.New("the database has not answered, and may have resolved the operation. Try: once keys show KEY, which tells")
	default:
		return db.failed("change", err)
	}
	a := resolveAnswer{Resolved: c.yes, Effect: c.decision.effect(op, call), Call: call, Operation: &op}
	if c.yes {
		found, err := db.find(ctx, op.Key)
		if err != nil {
			return err
		}
		a.Operation = nil // a key that is new again has none
		for _, now := range found {
			if now.Scope == op.Scope && now.Key == op.Key {
				a.Operation = &now
			}
		}
	}
	return c.print(m, a)
}

func (c *keysResolve) print(m *Main, a resolveAnswer) error {
	if !a.Resolved {
		if w := c.decision.warning(*a.Operation, a.Call); w != "" {
			fmt.Fprintf(m.Stderr, "WARNING: %s\n", w)
		}
		if c.decision.lacksStatus(*a.Operation) {
			fmt.Fprintln(m.Stderr, "WARNING: the scope looks like that of an HTTP route, and without --status its clients never get this answer.")
		}
	}
	var err error
	if c.output == "json" {
		err = writeJSON(m.Stdout, a)
	} else {
		_, err = fmt.Fprintf(m.Stdout, "%s: %s\n", either(a.Resolved, "resolved", "would do"), a.Effect)
	}
	if err == nil && !a.Resolved {
		return errors.New("nothing was changed yet. Try: the same with --yes")
	}
	return err
}

// notUnknown says why there is nothing to resolve.
func notUnknown(op admin.Operation) error {
	switch {
	case op.State != store.StateRunning.String():
		return fmt.Errorf("the operation is %s, not unknown: there is nothing to resolve. Try: once keys show KEY", op.State)
	case op.LeaseUntil != nil && op.LeaseUntil.Before(op.Now):
		return errors.New("the owner of the operation is gone, and it can go on without a person. Try: the request again, with the same key")
	}
	return errors.New("the operation is running, not unknown. Try: again when its lease is over, which once keys show KEY tells")
}

// begun returns the call that an operation has begun, nil if there is none, or another program has saved it.
func (db *operations) begun(ctx context.Context, op admin.Operation) (*lease.Begun, error) {
	ops, ok := store.As[store.Operations](db.store)
	if !ok {
		return nil, nil //nolint:nilnil // there is none
	}
	id := store.ID{Scope: op.Scope, Key: op.Key}
	rec, err := ops.Read(ctx, id)
	if err != nil {
		return nil, db.failed("read", err)
	}
	call, err := lease.BegunOf(id, rec)
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // nothing of it can be shown
	}
	return call, nil
}

// unchanged are operations of which a change is only tried.
type unchanged struct{ store.Operations }

// Swap implements [store.Operations].
func (unchanged) Swap(context.Context, store.Change) (store.Record, error) {
	return store.Record{}, nil
}
