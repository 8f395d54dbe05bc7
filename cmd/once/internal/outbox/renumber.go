package outbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/outbox"
)

var renumberEntry = cli.Entry{
	Quick: true, Name: "outbox renumber", Brief: "move the sequence numbers of all keys forward, after a restore from a backup",
	Help: `Use this command after the database was restored from a backup. The restored outbox would give new messages
sequence numbers that consumers have already received, so consumers would treat new messages as duplicates. This
command moves the numbers of all keys, also of keys that were added after the backup, to a number that was never used:
the time in milliseconds.

Before you run this command, let a relay deliver the waiting messages. After this command, start the service. The
command prints a command line: run this command line for each consumer whose inbox waits for missing numbers
(inbox.InOrder). See docs/restore.md.

Without --yes nothing is changed.`,
	Make: func() cli.Runner { return new(renumber) },
}

type renumber struct {
	db  string
	by  operate.By
	yes bool
}

func (c *renumber) Flags(fs *pflag.FlagSet) {
	cli.DBFlag(fs, &c.db)
	cli.ByFlags(fs, &c.by)
	cli.YesFlag(fs, &c.yes)
}

func (c *renumber) Run(ctx context.Context, m *cli.Env, _ []string) error {
	if err := cli.CheckBy(c.by, "once outbox renumber --reason WHY --db URL"); err != nil {
		return err
	}
	db, err := m.Open(ctx, c.db, operate.Config{})
	if err != nil {
		return err
	}
	defer db.Close()
	if !c.yes {
		before, err := db.Outbox.Started(ctx)
		if err != nil {
			return refused(db, "read", err)
		}
		fmt.Fprintf(m.Stdout, "would renumber: the numbers of all keys continue with a number that was never used\n")
		if before > 0 {
			fmt.Fprintf(m.Stdout, "after the last renumbering, the numbers continued after %d\n", before)
		}
		return m.Preview("--yes")
	}
	after, err := db.Outbox.Renumber(ctx, c.by)
	switch {
	case errors.Is(err, outbox.ErrBacklog):
		return fmt.Errorf("messages with a key wait for delivery in %s, so the command has changed nothing. Try: run \"once relay --to BROKER --db %s\" until \"once outbox list --db %s\" shows no message, and then the same command again", db.Name, db.Paste, db.Paste)
	case err != nil:
		return refused(db, "change", err)
	}
	fmt.Fprintf(m.Stdout, "renumbered: the numbers of all keys continue after %d\nTry: once inbox renumber --consumer CONSUMER --source SOURCE --after %d --reason WHY --yes --db URL-OF-THE-CONSUMER, for each inbox with InOrder\n", after, after)
	return nil
}
