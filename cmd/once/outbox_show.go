package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/outbox"
)

var outboxShowEntry = cli.Entry{
	Quick: true, Name: "outbox show", Args: "ID", Brief: "what happened to one message of the outbox",
	Help: `Prints what the database knows of a message: its state, its failures, and what can be done.
The payload and the headers are shown only with --payload, and if the service encrypts them,
only with --key-file as well.`,
	Make: func() cli.Runner { return new(outboxShow) },
}

type outboxShow struct{ messageFlags }

// messageFlags are those of a command that shows one message.
type messageFlags struct {
	db      string
	output  cli.Form
	payload bool
	key     keyFile
}

func (c *messageFlags) Flags(fs *pflag.FlagSet) {
	cli.DBFlag(fs, &c.db)
	fs.BoolVar(&c.payload, "payload", false, "show the payload and the headers")
	c.key.Flags(fs)
	c.output.Flag(fs)
}

// printBody ends the text of a message.
func (c *messageFlags) printBody(w io.Writer, t *tabwriter.Writer, payload []byte) error {
	if err := t.Flush(); err != nil || !c.payload {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n", body(payload))
	return err
}

func (c *outboxShow) Run(ctx context.Context, m *cli.Env, args []string) error {
	if len(args) == 0 || args[0] == "" {
		return cli.Usage("which message?", "once outbox show ID --db URL, with an ID of once outbox list")
	}
	encrypter, err := c.key.encrypter()
	if err != nil {
		return err
	}
	db, err := openOutbox(ctx, m, c.db, operate.Config{Encrypter: encrypter})
	if err != nil {
		return err
	}
	defer db.Close()
	e, err := db.Outbox.Show(ctx, args[0])
	switch {
	case err != nil && e.ID == "":
		return db.refused("read", err)
	case c.payload && e.Encrypted && encrypter == nil:
		return cli.Usage("the message is encrypted", "--key-file with the key of the service")
	case c.payload && err != nil:
		return err
	}
	if c.output != cli.Table {
		j := newOutboxEntry(e)
		if c.payload {
			j.Headers, j.Payload = e.Headers, e.Payload
		}
		return cli.WriteJSON(m.Stdout, c.output, j)
	}
	if err := c.print(m.Stdout, e); err != nil {
		return err
	}
	if e.State == outbox.StateStopped {
		fmt.Fprintf(m.Stderr, "\nTry: %s when the cause is removed, or once outbox skip %s --reason WHY --db %s\n", db.about("resume", e.Topic, e.Key), e.ID, db.Paste)
	}
	return nil
}

func (c *outboxShow) print(w io.Writer, e outbox.Entry) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) { fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	line("id", "%s", e.ID)
	line("topic", "%s", cli.Shown(e.Topic))
	if e.Key != "" {
		line("key", "%s, message %d", cli.Shown(e.Key), e.Seq)
	} else {
		line("key", "none: the message has no order")
	}
	line("type", "%s", cli.Shown(e.Type))
	line("source", "%s", cli.Shown(e.Source))
	line("state", "%s: %s", standing(e), messageMeaning(e))
	line("created", "%s", e.CreatedAt.UTC().Format(time.RFC3339))
	if !e.SentAt.IsZero() {
		line("delivered", "%s", e.SentAt.UTC().Format(time.RFC3339))
	}
	if !e.FailedAt.IsZero() {
		line("failed", "%s: %s", e.FailedAt.UTC().Format(time.RFC3339), cli.Shown(e.Error))
	}
	if !e.NextAt.IsZero() {
		line("next try", "%s", e.NextAt.UTC().Format(time.RFC3339))
	}
	if e.Trace != "" {
		line("trace", "%s", cli.Shown(e.Trace))
	}
	line("payload", "%s%s", cli.Count(int(e.PayloadBytes), "byte"), cli.Either(e.Encrypted, ", encrypted", ""))
	if c.payload {
		for _, name := range slices.Sorted(maps.Keys(e.Headers)) {
			line("header", "%s: %s", cli.Shown(name), cli.Shown(e.Headers[name]))
		}
	}
	return c.printBody(w, t, e.Payload)
}

// messageMeaning says what a state means to a person who was woken up by it.
func messageMeaning(e outbox.Entry) string {
	switch e.State {
	case outbox.StateWaiting:
		return cli.Either(e.Paused, "a person has paused its topic or its key", "a relay delivers it next")
	case outbox.StateFailing:
		return cli.Count(e.Attempts, "failed attempt") + ", a relay tries again" + cli.Either(e.Key != "", "; later messages of its key wait", "")
	case outbox.StateStopped:
		return cli.Count(e.Attempts, "failed attempt") + ", no relay tries again" + cli.Either(e.Key != "", "; later messages of its key wait", "")
	case outbox.StateBlocked:
		return "an earlier message of its key has failed and is not delivered yet"
	case outbox.StateDelivered:
		return "the destination has confirmed it"
	}
	return "not known to this release"
}

// body is a payload for a terminal: as it is if it is text, and else quoted.
func body(payload []byte) string {
	text := string(payload)
	if utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' && r != '\t' }) {
		return text
	}
	return strconv.Quote(text)
}
