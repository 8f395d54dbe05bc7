package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/outbox"
)

var outboxPauseEntry = cli.Entry{
	Quick: true, Name: "outbox pause", Brief: "deliver nothing of a topic or a key",
	Help: `Pauses the delivery of a topic, or of one of its keys. Services go on adding messages, and
nothing is lost. Relays notice it within two seconds. A batch that is on its way is
delivered.`,
	Make: func() cli.Runner { return new(outboxPauseCommand) },
}

type outboxPauseCommand struct {
	db, topic, key, reason, who string
}

func (c *outboxPauseCommand) Flags(fs *pflag.FlagSet) {
	cli.DBFlag(fs, &c.db)
	fs.StringVar(&c.topic, "topic", "", "the `TOPIC`, required")
	fs.StringVar(&c.key, "key", "", "only this `KEY` of it")
	fs.StringVar(&c.reason, "reason", "", "`WHY`, for once outbox list, required")
	fs.StringVar(&c.who, "by", cli.Operator(), "`WHO`, for once outbox list")
}

func (c *outboxPauseCommand) Run(ctx context.Context, m *cli.Env, _ []string) error {
	const try = "once outbox pause --topic TOPIC --reason WHY --db URL"
	switch {
	case c.topic == "":
		return cli.Usage("--topic is missing", try)
	case strings.TrimSpace(c.reason) == "":
		return cli.Usage("--reason is missing", try)
	}
	db, err := openOutboxBy(ctx, m, c.db, outbox.Config{}, auditName(c.who))
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.Pause(ctx, c.topic, c.key, signed(c.reason, c.who)); err != nil {
		return db.refused("change", err)
	}
	fmt.Fprintf(m.Stdout, "paused: %s\n", subject(c.topic, c.key))
	fmt.Fprintf(m.Stderr, "To end it, try: %s\n", db.about("resume", c.topic, c.key))
	return nil
}

// auditName is who is written to the audit, which has no empty names.
func auditName(who string) string { return cmp.Or(who, "unknown") }

// signed is a reason with the name of its author.
func signed(reason, who string) string {
	if who == "" {
		return reason
	}
	return who + ": " + reason
}

// subject is what a person pauses.
func subject(topic, key string) string {
	if key == "" {
		return "the topic " + cli.Shown(topic)
	}
	return "the key " + cli.Shown(key) + " of the topic " + cli.Shown(topic)
}

var outboxResumeEntry = cli.Entry{
	Quick: true, Name: "outbox resume", Brief: "deliver a topic or a key again",
	Help: `Ends the pause of a topic or of one of its keys, and has its failing and stopped messages
tried again at once. Without --key it is about the whole topic; keys that were paused one by
one stay paused. The exit code is 3 if there was nothing to resume.`,
	Make: func() cli.Runner { return new(outboxResume) },
}

type outboxResume struct{ db, topic, key, who string }

func (c *outboxResume) Flags(fs *pflag.FlagSet) {
	cli.DBFlag(fs, &c.db)
	fs.StringVar(&c.topic, "topic", "", "the `TOPIC`, required")
	fs.StringVar(&c.key, "key", "", "only this `KEY` of it")
	fs.StringVar(&c.who, "by", cli.Operator(), "`WHO`, for the audit")
}

func (c *outboxResume) Run(ctx context.Context, m *cli.Env, _ []string) error {
	if c.topic == "" {
		return cli.Usage("--topic is missing", "once outbox resume --topic TOPIC --db URL")
	}
	db, err := openOutboxBy(ctx, m, c.db, outbox.Config{}, auditName(c.who))
	if err != nil {
		return err
	}
	defer db.Close()
	r, err := db.Resume(ctx, c.topic, c.key)
	if err != nil {
		return db.refused("change", err)
	}
	if r == (outbox.Resumed{}) {
		return cli.Nothing(fmt.Errorf("there is nothing to resume: %s is not paused, and none of its messages has failed. Try: once outbox list --db %s", subject(c.topic, c.key), db.Paste))
	}
	if r.Paused {
		fmt.Fprintf(m.Stdout, "no longer paused: %s\n", subject(c.topic, c.key))
	}
	if r.Messages > 0 {
		fmt.Fprintf(m.Stdout, "tried again now: %s of %s\n", cli.Count(int(r.Messages), "failed message"), subject(c.topic, c.key))
	}
	return nil
}
