package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"strings"

	"github.com/oncelib/once/outbox"
)

var outboxPauseEntry = entry{
	quick: true, name: "outbox pause", brief: "deliver nothing of a topic or a key",
	help: `Pauses the delivery of a topic, or of one of its keys. Services go on adding messages, and
nothing is lost. Relays notice it within two seconds. A batch that is on its way is
delivered. A topic of which no message is known is paused as well, with a warning: its name may
be wrong.`,
	make: func() command { return new(outboxPauseCommand) },
}

type outboxPauseCommand struct {
	db, topic, key, reason, who string
}

func (c *outboxPauseCommand) flags(fs *flag.FlagSet) {
	fs.StringVar(&c.db, "db", "", dbUsage)
	fs.StringVar(&c.topic, "topic", "", "the `TOPIC`, required")
	fs.StringVar(&c.key, "key", "", "only this `KEY` of it")
	fs.StringVar(&c.reason, "reason", "", "`WHY`, for once outbox list, required")
	fs.StringVar(&c.who, "by", operator(), "`WHO`, for once outbox list")
}

func (c *outboxPauseCommand) run(ctx context.Context, m *Main, _ []string) error {
	const try = "once outbox pause --topic TOPIC --reason WHY --db URL"
	switch {
	case c.topic == "":
		return &usageError{"--topic is missing", try}
	case strings.TrimSpace(c.reason) == "":
		return &usageError{"--reason is missing", try}
	}
	db, err := m.openOutboxBy(ctx, c.db, outbox.Config{}, auditName(c.who))
	if err != nil {
		return err
	}
	defer db.Close()
	known, err := db.Known(ctx, c.topic, c.key)
	if err != nil {
		return db.refused("read", err)
	}
	if err := db.Pause(ctx, c.topic, c.key, signed(c.reason, c.who)); err != nil {
		return db.refused("change", err)
	}
	fmt.Fprintf(m.Stdout, "paused: %s\n", subject(c.topic, c.key))
	if !known {
		fmt.Fprintf(m.Stderr, "No message of %s waits, and none with a key was ever added. Try: whether the name is right\n", subject(c.topic, c.key))
	}
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
		return "the topic " + shown(topic)
	}
	return "the key " + shown(key) + " of the topic " + shown(topic)
}

var outboxResumeEntry = entry{
	quick: true, name: "outbox resume", brief: "deliver a topic or a key again",
	help: `Ends the pause of a topic or of one of its keys, and has its failing and stopped messages
tried again at once. Without --key it is about the whole topic; keys that were paused one by
one stay paused. The exit code is 1 if there was nothing to resume.`,
	make: func() command { return new(outboxResume) },
}

type outboxResume struct{ db, topic, key, who string }

func (c *outboxResume) flags(fs *flag.FlagSet) {
	fs.StringVar(&c.db, "db", "", dbUsage)
	fs.StringVar(&c.topic, "topic", "", "the `TOPIC`, required")
	fs.StringVar(&c.key, "key", "", "only this `KEY` of it")
	fs.StringVar(&c.who, "by", operator(), "`WHO`, for the audit")
}

func (c *outboxResume) run(ctx context.Context, m *Main, _ []string) error {
	if c.topic == "" {
		return &usageError{"--topic is missing", "once outbox resume --topic TOPIC --db URL"}
	}
	db, err := m.openOutboxBy(ctx, c.db, outbox.Config{}, auditName(c.who))
	if err != nil {
		return err
	}
	defer db.Close()
	r, err := db.Resume(ctx, c.topic, c.key)
	if err != nil {
		return db.refused("change", err)
	}
	if r == (outbox.Resumed{}) {
		return fmt.Errorf("there is nothing to resume: %s is not paused, and none of its messages has failed. Try: once outbox list --db %s", subject(c.topic, c.key), db.paste)
	}
	if r.Paused {
		fmt.Fprintf(m.Stdout, "no longer paused: %s\n", subject(c.topic, c.key))
	}
	if r.Messages > 0 {
		fmt.Fprintf(m.Stdout, "tried again now: %s of %s\n", count(int(r.Messages), "failed message"), subject(c.topic, c.key))
	}
	return nil
}
