package saga

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/operate"
)

var forgetEntry = cli.Entry{
	Quick: true, Name: "saga forget", Args: "KEY", Brief: "erase the stored data of a saga that has ended",
	Help: `Erases the outcome of a saga that has ended, the states of its steps, and the inputs and results of its steps, if the
service stores them (saga.Config.KeepData). The record still shows the tenant and the key of the saga, and that the saga
has ended, until the record expires. If the same saga is started again before the record expires, no step is executed,
and the caller receives the answer that the outcome is not available. The command refuses a saga that has not ended,
because the saga needs its data to continue. The command does not erase rows that the steps have written to other tables
or services: for operations, see "once keys forget".

Without --yes nothing is changed: the command prints the effect. The same commit writes the operator, the time and the
reason into the audit.`,
	Make: func() cli.Runner { return new(forget) },
}

type forget struct {
	subject

	by  operate.By
	yes bool
}

func (c *forget) Flags(fs *pflag.FlagSet) {
	c.subject.Flags(fs)
	cli.ByFlags(fs, &c.by)
	cli.YesFlag(fs, &c.yes)
}

func (c *forget) Run(ctx context.Context, m *cli.Env, args []string) error {
	const try = "once saga forget KEY --reason WHY --db URL"
	if len(args) == 0 || args[0] == "" {
		return cli.Usage("the KEY of the saga is missing", try)
	}
	if err := cli.CheckBy(c.by, try); err != nil {
		return err
	}
	db, err := m.Open(ctx, c.db, operate.Config{})
	if err != nil {
		return err
	}
	defer db.Close()
	one, err := c.find(ctx, m, db, args)
	if err != nil {
		return err
	}
	detail, err := db.Sagas.Forget(ctx, c.by, one.ID(), !c.yes)
	if err != nil {
		return refused(db, "change", err)
	}
	fmt.Fprintf(m.Stdout, "%s%s: %s\n", words.Either(c.yes, "", "would do: "), titled(one), detail)
	if !c.yes {
		return m.Preview("--yes")
	}
	return nil
}
