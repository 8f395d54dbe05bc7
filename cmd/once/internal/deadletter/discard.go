package deadletter

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/operate"
)

var discardEntry = cli.Entry{
	Name: "deadletter discard", Args: "UID", Brief: "discard dead letters for good, so that later messages of their keys are handled",
	Help: `Discards dead letters: the dead letter with this UID, or all dead letters that match the flags. After a dead
letter is discarded, its inbox handles the next message of the key, and treats a redelivery of the discarded message as
a duplicate. In place of a discarded message of an outbox, a relay delivers a marker (a message without the payload).
"once outbox skip" has the same effect.

Without --yes nothing is changed: the command counts the dead letters, and prints a value for --before. With the printed
value, --before chooses exactly the counted dead letters, and no later dead letters. With --yes the command deletes the
payloads for good.`,
	Make: func() cli.Runner { return new(discard) },
}

type discard struct {
	db     string
	by     operate.By
	filter letterFilter
	yes    bool
}

func (c *discard) Flags(fs *pflag.FlagSet) {
	cli.DBFlag(fs, &c.db)
	c.filter.Flags(fs)
	cli.ByFlags(fs, &c.by)
	cli.YesFlag(fs, &c.yes)
}

func (c *discard) Run(ctx context.Context, m *cli.Env, args []string) error {
	const try = "once deadletter discard UID --reason WHY --db URL"
	if len(args) > 0 {
		c.filter.UID = args[0]
	}
	switch {
	case len(args) > 0 && args[0] == "": // an empty variable in a script must not mean all letters
		return cli.Usage("the UID is empty", try)
	case c.filter.UID == "" && c.filter.again() == "":
		return cli.Usage("the UID of the dead letter is missing", try+", or a flag that chooses dead letters, such as --cause")
	}
	if err := cli.CheckBy(c.by, try); err != nil {
		return err
	}
	db, err := m.Open(ctx, c.db, operate.Config{})
	if err != nil {
		return err
	}
	defer db.Close()
	now, err := c.filter.resolve(ctx, db)
	if err != nil {
		return err
	}
	if !c.yes {
		if err := db.Audited(ctx); err != nil {
			return err
		}
		flags := c.filter.bound(now)
		n, _, err := db.Letters.Count(ctx, c.filter.LetterFilter)
		if err != nil {
			return refused(db, "read", err)
		}
		if c.filter.UID != "" && n == 0 {
			return notDead(db, c.filter.UID)
		}
		fmt.Fprintf(m.Stdout, "would discard: %s\n", words.Count(int(n), "dead letter"))
		return m.Preview(flags)
	}
	n, err := db.Letters.Discard(ctx, c.by, c.filter.LetterFilter)
	if err != nil {
		return refused(db, "change", err)
	}
	if c.filter.UID != "" && n == 0 {
		return notDead(db, c.filter.UID)
	}
	fmt.Fprintf(m.Stdout, "discarded: %s\n", words.Count(int(n), "dead letter"))
	return nil
}
