package outbox

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/outbox"
)

var skipEntry = cli.Entry{
	Quick: true, Name: "outbox skip", Args: "ID", Brief: "give up a message that cannot be delivered, so that later messages of its key are delivered",
	Help: `Gives up a message that cannot be delivered. The command replaces the message with a marker: a message of the
type ` + message.TypeSkipped + ` with the same topic, key, ID and sequence number, without the payload, and with the
reason in a header. The marker is delivered, so a consumer that needs every sequence number can continue after the
marker.

Without --yes nothing is changed. With --yes the command deletes the payload for good.`,
	Make: func() cli.Runner { return new(skip) },
}

type skip struct {
	db  string
	by  operate.By
	yes bool
}

func (c *skip) Flags(fs *pflag.FlagSet) {
	cli.DBFlag(fs, &c.db)
	cli.ByFlags(fs, &c.by)
	cli.YesFlag(fs, &c.yes)
}

func (c *skip) Run(ctx context.Context, m *cli.Env, args []string) error {
	const try = "once outbox skip ID --reason WHY --db URL"
	if len(args) == 0 || args[0] == "" {
		return cli.Usage("the ID of the message is missing", try)
	}
	if err := cli.CheckBy(c.by, try); err != nil {
		return err
	}
	db, err := m.Open(ctx, c.db, operate.Config{})
	if err != nil {
		return err
	}
	defer db.Close()
	e, err := db.Outbox.Show(ctx, args[0])
	switch {
	case err != nil && e.ID == "": // with an ID, the message was read, and only its payload cannot be decrypted, which does not matter here
		return refused(db, "read", err)
	// A delivered message cannot be skipped: for this command it is as good as gone.
	case e.State == outbox.StateDelivered:
		return refused(db, "read", outbox.ErrNotFound)
	}
	if !c.yes {
		fmt.Fprintf(m.Stdout, "would skip: %s\n", skipped(e))
		return m.Preview("--yes")
	}
	if err := db.Outbox.Skip(ctx, c.by, e.ID); err != nil {
		return refused(db, "change", err)
	}
	fmt.Fprintf(m.Stdout, "skipped: %s\n", skipped(e))
	return nil
}

// skipped names a message in one line.
func skipped(e operate.Message) string {
	line := fmt.Sprintf("%s of the topic %s", words.Shown(e.Type), words.Shown(e.Topic))
	if e.Key != "" {
		line += fmt.Sprintf(", message %d of the key %s", e.Seq, words.Shown(e.Key))
	}
	return line + ", " + words.Count(int(e.PayloadBytes), "byte") + " of payload"
}
