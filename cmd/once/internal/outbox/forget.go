package outbox

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/operate"
)

var forgetEntry = cli.Entry{
	Quick: true, Name: "outbox forget", Brief: "erase the payloads of the delivered messages of a key",
	Help: `Erases the payloads and headers of the delivered messages of a key, if the relay keeps delivered messages ("once relay
--keep"). The command keeps the rows of these messages, with the time of delivery. The command does not erase the
payloads of messages that still wait for their delivery; if the key has such messages, the exit code is 1. The command
does not erase the copies in brokers, consumers and dead letters. The command also does not erase the copies that the
database keeps for its own purposes, such as its log and its backups.

Without --yes nothing is changed.`,
	Make: func() cli.Runner { return new(forget) },
}

type forget struct{ target }

func (c *forget) Flags(fs *pflag.FlagSet) {
	c.target.Flags(fs)
	fs.Lookup("key").Usage = "the `KEY` of the messages (required)"
}

func (c *forget) Run(ctx context.Context, m *cli.Env, _ []string) error {
	const try = "once outbox forget --topic TOPIC --key KEY --reason WHY --db URL"
	if err := c.check(try); err != nil {
		return err
	}
	if c.key == "" {
		return cli.Usage("--key is missing", try)
	}
	db, err := m.Open(ctx, c.db, operate.Config{})
	if err != nil {
		return err
	}
	defer db.Close()
	if !c.yes {
		fmt.Fprintf(m.Stdout, "would forget: the delivered messages of %s\n", c)
		return m.Preview("--yes")
	}
	f, err := db.Outbox.Forget(ctx, c.by, c.topic, c.key)
	if err != nil {
		return refused(db, "change", err)
	}
	fmt.Fprintf(m.Stdout, "forgotten: %s of %s\n", words.Count(int(f.Erased), "delivered message"), c)
	// Not a success: the caller wants the data erased, and a waiting message still has it.
	if f.Waiting > 0 {
		return fmt.Errorf("%s for delivery, so the command has not erased the payloads of waiting messages. Try: run the same command again after the delivery, or once outbox skip; %s", words.Counted(int(f.Waiting), "message waits", "messages wait"), about(db, "list", c.topic, c.key))
	}
	return nil
}
