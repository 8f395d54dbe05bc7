package inbox

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/operate"
)

var renumberEntry = cli.Entry{
	Quick: true, Name: "inbox renumber", Brief: "make an inbox accept the new numbers of a sender that was restored from a backup",
	Help: `Use this command for an ordered inbox (inbox.InOrder), after the database of the sender was restored from a backup.
First run "once outbox renumber" in the database of the sender: that command prints NUMBER. After "once inbox renumber",
for every key of the source, the next message is the first message with a number greater than NUMBER. Keys that wait for
a smaller number stop waiting.

Before you run "once inbox renumber", wait until the consumer has applied all messages that the sender sent before the
restore. After the command, messages with the old numbers count as duplicates. You can run the command again without
harm.

Without --yes nothing is changed.`,
	Make: func() cli.Runner { return new(renumber) },
}

type renumber struct {
	db, consumer, source string
	after                int64
	by                   operate.By
	yes                  bool
}

func (c *renumber) Flags(fs *pflag.FlagSet) {
	cli.DBFlag(fs, &c.db)
	fs.StringVar(&c.consumer, "consumer", "", "the name of the `CONSUMER`, as in inbox.Config.Consumer (required)")
	fs.StringVar(&c.source, "source", "once", "the `SOURCE` of the messages")
	fs.Int64Var(&c.after, "after", 0, "the `NUMBER` that \"once outbox renumber\" has printed (required)")
	cli.ByFlags(fs, &c.by)
	cli.YesFlag(fs, &c.yes)
}

func (c *renumber) Run(ctx context.Context, m *cli.Env, _ []string) error {
	const try = "once inbox renumber --consumer CONSUMER --source SOURCE --after NUMBER --reason WHY --db URL"
	c.source = cmp.Or(c.source, "once") // the inbox has the same default
	switch {
	case c.consumer == "":
		return cli.Usage("--consumer is missing", try)
	case c.after < 1:
		return cli.Usage("--after is missing, or is not a number that once outbox renumber has printed", try)
	}
	if err := cli.CheckBy(c.by, try); err != nil {
		return err
	}
	if err := checkConsumer(c.consumer); err != nil {
		return err
	}
	db, err := m.Open(ctx, c.db, operate.Config{})
	if err != nil {
		return err
	}
	defer db.Close()
	what := fmt.Sprintf("for the consumer %s, each key of the source %s continues with a number greater than %d", words.Shown(c.consumer), words.Shown(c.source), c.after)
	if !c.yes {
		fmt.Fprintln(m.Stdout, "would renumber: "+what)
		return m.Preview("--yes")
	}
	keys, err := db.Inbox.Renumber(ctx, c.by, c.consumer, c.source, c.after)
	if err != nil {
		return refused(db, "change", err)
	}
	fmt.Fprintf(m.Stdout, "renumbered: %s. Keys that waited for a smaller number: %d\n", what, keys)
	return nil
}
