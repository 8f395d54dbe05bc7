package outbox

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/outbox"
)

var pauseEntry = cli.Entry{
	Quick: true, Name: "outbox pause", Brief: "stop the delivery of a topic or a key",
	Help: `Pauses the delivery of a topic, or of one key of a topic. Services can still add messages, and no message is
lost. Relays notice the pause within two seconds. If a relay is already delivering a batch, it completes this batch. If
the database has no message of the topic, the command pauses the topic and prints a warning, because the name may
be wrong.

Without --yes nothing is changed.`,
	Make: func() cli.Runner { return new(pause) },
}

// target has the flags that name a topic, or one of its keys, the operator and the reason.
type target struct {
	db, topic, key string
	by             operate.By
	yes            bool
}

func (c *target) Flags(fs *pflag.FlagSet) {
	cli.DBFlag(fs, &c.db)
	fs.StringVar(&c.topic, "topic", "", "the `TOPIC` of the messages (required)")
	fs.StringVar(&c.key, "key", "", "pause or resume only this `KEY` of the topic")
	cli.ByFlags(fs, &c.by)
	cli.YesFlag(fs, &c.yes)
}

func (c *target) check(try string) error {
	if c.topic == "" {
		return cli.Usage("--topic is missing", try)
	}
	return cli.CheckBy(c.by, try)
}

// String names the topic or key.
func (c *target) String() string { return operate.Pause{Topic: c.topic, Key: c.key}.String() }

type pause struct{ target }

func (c *pause) Run(ctx context.Context, m *cli.Env, _ []string) error {
	if err := c.check("once outbox pause --topic TOPIC --reason WHY --db URL"); err != nil {
		return err
	}
	db, err := m.Open(ctx, c.db, operate.Config{})
	if err != nil {
		return err
	}
	defer db.Close()
	// A warning and no error: a topic may be paused before its first message.
	known, err := db.Outbox.Known(ctx, c.topic, c.key)
	if err != nil {
		return refused(db, "read", err)
	}
	if !c.yes {
		fmt.Fprintf(m.Stdout, "would pause: %s\n", c)
		return m.Preview("--yes")
	}
	if err := db.Outbox.Pause(ctx, c.by, c.topic, c.key); err != nil {
		return refused(db, "change", err)
	}
	fmt.Fprintf(m.Stdout, "paused: %s\n", c)
	if !known {
		fmt.Fprintf(m.Stderr, "No message of %s waits for delivery, and no message with a key was ever added. Try: check the names of the topic and the key\n", c)
	}
	fmt.Fprintf(m.Stderr, "To end the pause, try: %s\n", about(db, "resume", c.topic, c.key))
	return nil
}

var resumeEntry = cli.Entry{
	Quick: true, Name: "outbox resume", Brief: "end the pause of a topic or a key",
	Help: `Ends the pause of a topic or of one key of a topic, and makes relays retry the failing and stopped messages of the
topic or key at once. Without --key the command resumes the whole topic, but keys that were paused with --key stay
paused. The exit code is 3 if there is nothing to resume.

Without --yes nothing is changed.`,
	Make: func() cli.Runner { return new(resume) },
}

type resume struct{ target }

func (c *resume) Run(ctx context.Context, m *cli.Env, _ []string) error {
	if err := c.check("once outbox resume --topic TOPIC --reason WHY --db URL"); err != nil {
		return err
	}
	db, err := m.Open(ctx, c.db, operate.Config{})
	if err != nil {
		return err
	}
	defer db.Close()
	if !c.yes {
		fmt.Fprintf(m.Stdout, "would resume: %s\n", c)
		return m.Preview("--yes")
	}
	r, err := db.Outbox.Resume(ctx, c.by, c.topic, c.key)
	if err != nil {
		return refused(db, "change", err)
	}
	// Nothing was changed, and the name of the topic may be wrong.
	if r == (outbox.Resumed{}) {
		return cli.Nothing(fmt.Errorf("%s is not paused and has no failed message, so there is nothing to resume. Try: once outbox list --db %s", c, db.Paste))
	}
	if r.Paused {
		fmt.Fprintf(m.Stdout, "no longer paused: %s\n", c)
	}
	if r.Messages > 0 {
		fmt.Fprintf(m.Stdout, "relays try again now: %s of %s\n", words.Count(int(r.Messages), "failed message"), c)
	}
	return nil
}
