package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/outbox"
)

var resendEntry = cli.Entry{
	Quick: true, Name: "outbox resend", Args: "[ID]", Brief: "deliver a delivered message again",
	Help: `Makes a relay deliver a delivered message again. The outbox must have kept the message ("once relay --keep"). Use this
command if a consumer has lost the message. The message has the same ID, number and payload as before, so an inbox that
has applied the message treats it as a duplicate. If the delivery fails, later messages of the key wait, as after every
failed delivery.

With --since instead of an ID, relays deliver again all messages that were delivered at the given time or later. Use
--since for consumers that were restored from a backup. See docs/restore.md.

Without --yes nothing is changed.`,
	Make: func() cli.Runner { return new(resend) },
}

type resend struct {
	db, since string
	all       operate.Since
	by        operate.By
	yes       bool
}

func (c *resend) Flags(fs *pflag.FlagSet) {
	cli.DBFlag(fs, &c.db)
	cli.ByFlags(fs, &c.by)
	cli.YesFlag(fs, &c.yes)
	fs.StringVar(&c.since, "since", "", "instead of an ID: resend all messages that were delivered at this `TIME` or later")
	fs.StringVar(&c.all.Topic, "topic", "", "with --since: resend only messages of this `TOPIC`")
}

// resendAll is the command with --since.
func (c *resend) resendAll(ctx context.Context, m *cli.Env) (err error) {
	const try = "once outbox resend --since 2026-11-27T06:00:00Z --reason WHY --db URL"
	if c.all.At, err = time.Parse(time.RFC3339, c.since); err != nil {
		return cli.Usage(fmt.Sprintf("--since %s is not a time", words.Quoted(c.since)), try)
	}
	if err := cli.CheckBy(c.by, try); err != nil {
		return err
	}
	db, err := m.Open(ctx, c.db, operate.Config{})
	if err != nil {
		return err
	}
	defer db.Close()
	if !c.yes {
		n, err := db.Outbox.CountSince(ctx, c.all)
		if err != nil {
			return refused(db, "read", err)
		}
		fmt.Fprintf(m.Stdout, "would send again: %s\n", words.Count(n, "message"))
		return m.Preview("--yes")
	}
	n, err := db.Outbox.ResendSince(ctx, c.by, c.all)
	if err != nil {
		return refused(db, "change", err)
	}
	fmt.Fprintf(m.Stdout, "relays send again: %s\n", words.Count(n, "message"))
	return nil
}

func (c *resend) Run(ctx context.Context, m *cli.Env, args []string) error {
	const try = "once outbox resend ID --reason WHY --db URL"
	if c.since != "" && len(args) == 0 {
		return c.resendAll(ctx, m)
	}
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
	case errors.Is(err, outbox.ErrNotFound):
		return cli.Nothing(fmt.Errorf("the outbox of %s does not have this message. Relays keep delivered messages only with once relay --keep, for the time of this flag. Try: once outbox list --state delivered --db %s", db.Name, db.Paste))
	case err != nil && e.ID == "": // with an ID, the message was read, and only its payload cannot be decrypted, which does not matter here
		return refused(db, "read", err)
	case e.State != outbox.StateDelivered:
		return waits(db, e.ID)
	}
	if !c.yes {
		fmt.Fprintf(m.Stdout, "would send again: %s\n", skipped(e))
		return m.Preview("--yes")
	}
	switch err := db.Outbox.Resend(ctx, c.by, e.ID); {
	case errors.Is(err, outbox.ErrNotDelivered): // another operator has resent it meanwhile
		return waits(db, e.ID)
	case errors.Is(err, outbox.ErrErased):
		return fmt.Errorf("message %s cannot be sent again: its payload and headers were erased, or the message never had a payload and headers. Try: let the service add a new message", e.ID)
	case err != nil:
		return refused(db, "change", err)
	}
	fmt.Fprintf(m.Stdout, "a relay sends the message again: %s\n", skipped(e))
	return nil
}

func waits(db *cli.DB, id string) error {
	return fmt.Errorf("message %s is not delivered yet. Try: once outbox show %s --db %s", id, id, db.Paste)
}
