package keys

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/operate"
)

var forgetEntry = cli.Entry{
	Name: "keys forget", Args: "KEY", Brief: "erase the stored answer and request of an operation",
	Help: `Erases the stored result of an operation, its request if the service captured it, its trace, and the request
and correlation IDs of its attempts so far. The state, scope, key and fingerprint of the operation stay until the
operation expires: a retry is not executed, and gets the response that the result is not available. The same commit
writes the operator, the time and the reason into the audit.

Without --yes nothing is changed: the command prints the effect.

The command refuses to erase the data of a running operation, or of an operation whose outcome is unknown, because
the operation needs this data to continue. See "once keys resolve".

The key itself stays, so that a retry is not executed. (If your keys are personal data, use Config.HashKeys.) Copies
that the database keeps for its own purposes stay too: dead rows until the next vacuum, write-ahead logs, replicas, and
backups.`,
	Make: func() cli.Runner { return new(forget) },
}

type forget struct {
	db    string
	by    operate.By
	order operate.ForgetRequest
	yes   bool
}

func (c *forget) Flags(fs *pflag.FlagSet) {
	cli.DBFlag(fs, &c.db)
	fs.StringVar(&c.order.Scope, "scope", "", "the `SCOPE` of the key (required)")
	cli.ByFlags(fs, &c.by)
	cli.YesFlag(fs, &c.yes)
}

func (c *forget) Run(ctx context.Context, m *cli.Env, args []string) error {
	const try = "once keys forget KEY --scope SCOPE --reason WHY --db URL"
	switch {
	case len(args) == 0 || args[0] == "":
		return cli.Usage("the KEY is missing", try)
	case c.order.Scope == "":
		return cli.Usage("--scope is missing", try)
	}
	if err := cli.CheckBy(c.by, try); err != nil {
		return err
	}
	db, err := m.Open(ctx, c.db, operate.Config{})
	if err != nil {
		return err
	}
	defer db.Close()
	c.order.Key, c.order.Preview = args[0], !c.yes
	detail, err := db.Keys.Forget(ctx, c.by, c.order)
	if refused := refusal(err); refused != nil {
		return refused
	}
	switch {
	case err != nil:
		return db.Failed("change", err)
	case c.yes:
		fmt.Fprintf(m.Stdout, "%s\n", detail)
		return nil
	}
	fmt.Fprintf(m.Stdout, "would do: %s\n", detail)
	return m.Preview("--yes")
}

// refusal translates err into the words of this command, if err says why nothing was forgotten.
func refusal(err error) error {
	switch {
	case errors.Is(err, operate.ErrNothing):
		return cli.Nothing(errors.New("the database has no operation with this key in this scope. Try: once keys show KEY, which searches all scopes"))
	case errors.Is(err, operate.ErrRunning):
		return errors.New("the operation is running, and its process needs the stored data. Try: run the same command again when the operation has ended")
	case errors.Is(err, operate.ErrUnknown):
		return errors.New("the outcome of the operation is unknown, and the operation needs the stored data until its outcome is known. Try: once keys resolve KEY, and then the same command again")
	}
	return nil
}
