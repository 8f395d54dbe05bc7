package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"

	"github.com/oncelib/once/outbox"
)

var outboxSkipEntry = entry{
	quick: true, name: "outbox skip", args: "ID", brief: "give a message up, so that its key goes on",
	help: `Replaces a message that cannot be delivered. A marker takes its place: a message of the type
` + outbox.TypeSkipped + ` with the same topic, key, ID and sequence number, without the payload, and with
the reason in a header. A consumer that expects every sequence number goes on behind it.

Without --yes nothing is changed. The payload is deleted: it cannot be got back.`,
	make: func() command { return new(outboxSkip) },
}

type outboxSkip struct {
	db, reason, who string
	yes             bool
}

func (c *outboxSkip) flags(fs *flag.FlagSet) {
	fs.StringVar(&c.db, "db", "", dbUsage)
	fs.StringVar(&c.reason, "reason", "", "`WHY`, for the consumers, required")
	fs.StringVar(&c.who, "by", operator(), "`WHO`, for the consumers")
	fs.BoolVar(&c.yes, "yes", false, "do it")
}

func (c *outboxSkip) run(ctx context.Context, m *Main, args []string) error {
	const try = "once outbox skip ID --reason WHY --db URL"
	switch {
	case len(args) == 0 || args[0] == "":
		return &usageError{"which message?", try}
	case strings.TrimSpace(c.reason) == "":
		return &usageError{"--reason is missing", try}
	}
	db, err := m.openOutboxBy(ctx, c.db, outbox.Config{}, auditName(c.who))
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
		return errors.New("nothing was changed yet. Try: the same with --yes")
	}
	if err := db.Skip(ctx, e.ID, signed(c.reason, c.who)); err != nil {
		return db.refused("change", err)
	}
	fmt.Fprintf(m.Stdout, "skipped: %s\n", skipped(e))
	return nil
}

// skipped names a message in one line.
func skipped(e outbox.Entry) string {
	line := fmt.Sprintf("%s of the topic %s", shown(e.Type), shown(e.Topic))
	if e.Key != "" {
		line += fmt.Sprintf(", message %d of the key %s", e.Seq, shown(e.Key))
	}
	return line + ", " + count(int(e.PayloadBytes), "byte") + " of payload"
}
