package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/outbox"
)

var outboxSkipEntry = cli.Entry{
	Quick: true, Name: "outbox skip", Args: "ID", Brief: "give a message up, so that its key goes on",
	Help: `Replaces a message that cannot be delivered. A marker takes its place: a message of the type
` + outbox.TypeSkipped + ` with the same topic, key, ID and sequence number, without the payload, and with
the reason in a header. A consumer that expects every sequence number goes on behind it.

Without --yes nothing is changed. The payload is deleted: it cannot be got back.`,
	Make: func() cli.Runner { return new(outboxSkip) },
}

type outboxSkip struct {
	db, reason, who string
	yes             bool
}

func (c *outboxSkip) Flags(fs *pflag.FlagSet) {
	cli.DBFlag(fs, &c.db)
	fs.StringVar(&c.reason, "reason", "", "`WHY`, for the consumers, required")
	fs.StringVar(&c.who, "by", cli.Operator(), "`WHO`, for the consumers")
	fs.BoolVar(&c.yes, "yes", false, "do it")
}

func (c *outboxSkip) Run(ctx context.Context, m *cli.Env, args []string) error {
	const try = "once outbox skip ID --reason WHY --db URL"
	switch {
	case len(args) == 0 || args[0] == "":
		return cli.Usage("which message?", try)
	case strings.TrimSpace(c.reason) == "":
		return cli.Usage("--reason is missing", try)
	}
	db, err := openOutboxBy(ctx, m, c.db, outbox.Config{}, auditName(c.who))
	if err != nil {
		return err
	}
	defer db.Close()
	e, err := db.Show(ctx, args[0])
	switch {
	case err != nil && e.ID == "": // not only one that cannot be decrypted
		return db.refused("read", err)
	case e.State == outbox.StateDelivered:
		return db.refused("read", outbox.ErrNotFound)
	}
	if !c.yes {
		fmt.Fprintf(m.Stdout, "would skip: %s\n", skipped(e))
		return m.Preview("--yes")
	}
	if err := db.Skip(ctx, e.ID, signed(c.reason, c.who)); err != nil {
		return db.refused("change", err)
	}
	fmt.Fprintf(m.Stdout, "skipped: %s\n", skipped(e))
	return nil
}

// skipped names a message in one line.
func skipped(e outbox.Entry) string {
	line := fmt.Sprintf("%s of the topic %s", cli.Shown(e.Type), cli.Shown(e.Topic))
	if e.Key != "" {
		line += fmt.Sprintf(", message %d of the key %s", e.Seq, cli.Shown(e.Key))
	}
	return line + ", " + cli.Count(int(e.PayloadBytes), "byte") + " of payload"
}
