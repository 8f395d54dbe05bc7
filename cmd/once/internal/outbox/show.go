package outbox

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/outbox"
)

var showEntry = cli.Entry{
	Quick: true, Name: "outbox show", Args: "ID", Brief: "print the history of one message of the outbox",
	Help: `Prints the record of a message in the database: its state, its failures, and the actions that you can take.
The payload and the headers are printed only with --payload. If the service encrypts the payload and the headers, the
command also needs --key-file.`,
	Make: func() cli.Runner { return new(show) },
}

type show struct{ cli.MessageFlags }

func (c *show) Run(ctx context.Context, m *cli.Env, args []string) error {
	if len(args) == 0 || args[0] == "" {
		return cli.Usage("the ID of the message is missing", "once outbox show ID --db URL, with an ID of once outbox list")
	}
	encrypter, err := c.Key.Encrypter()
	if err != nil {
		return err
	}
	db, err := m.Open(ctx, c.DB, operate.Config{Encrypter: encrypter})
	if err != nil {
		return err
	}
	defer db.Close()
	e, err := db.Outbox.Show(ctx, args[0])
	switch {
	case err != nil && e.ID == "":
		return refused(db, "read", err)
	case c.Payload && e.Encrypted && encrypter == nil:
		return cli.Usage("the message is encrypted", "--key-file with the key of the service")
	case c.Payload && err != nil:
		return err
	}
	if c.Output != cli.Table {
		if !c.Payload {
			e = e.WithoutBody()
		}
		return cli.WriteJSON(m.Stdout, c.Output, e)
	}
	if err := c.print(m.Stdout, e); err != nil {
		return err
	}
	if op := e.Operation; op != nil {
		fmt.Fprintf(m.Stderr, "\nTry: once keys show %s --scope %s --events --db %s, which prints the operation that has added the message\n", words.Quoted(op.Key), words.Quoted(op.Scope), db.Paste)
	}
	if e.State == outbox.StateStopped {
		fmt.Fprintf(m.Stderr, "\nTry: %s when you have repaired the cause, or once outbox skip %s --reason WHY --db %s\n", about(db, "resume", e.Topic, e.Key), e.ID, db.Paste)
	}
	return nil
}

func (c *show) print(w io.Writer, e operate.Message) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) { fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	line("id", "%s", e.ID)
	line("topic", "%s", words.Shown(e.Topic))
	if e.Key != "" {
		line("key", "%s, message %d", words.Shown(e.Key), e.Seq)
	} else {
		line("key", "none: the message has no key, and no order")
	}
	line("type", "%s", words.Shown(e.Type))
	line("source", "%s", words.Shown(e.Source))
	line("state", "%s: %s", standing(e), messageMeaning(e))
	line("created", "%s", words.Time(e.CreatedAt))
	if !e.SentAt.IsZero() {
		line("delivered", "%s", words.Time(e.SentAt))
	}
	if !e.FailedAt.IsZero() {
		line("failed", "%s: %s", words.Time(e.FailedAt), words.Shown(e.Error))
	}
	if !e.NextAt.IsZero() {
		line("next try", "%s", words.Time(e.NextAt))
	}
	if op := e.Operation; op != nil {
		line("operation", "%s, scope %s", op.KeyHash, words.Shown(op.Scope))
	}
	if e.Trace != "" {
		line("trace", "%s", words.Shown(e.Trace))
	}
	line("payload", "%s%s", words.Count(int(e.PayloadBytes), "byte"), words.Either(e.Encrypted, ", encrypted", ""))
	if c.Payload {
		for _, name := range slices.Sorted(maps.Keys(e.Headers)) {
			line("header", "%s: %s", words.Shown(name), words.Shown(e.Headers[name]))
		}
	}
	return c.PrintBody(w, t, e.Payload)
}

// messageMeaning explains a state to an operator who sees it for the first time.
func messageMeaning(e operate.Message) string {
	switch e.State {
	case outbox.StateWaiting:
		return words.Either(e.Paused, "an operator has paused the topic or the key of the message", "a relay will deliver the message")
	case outbox.StateFailing:
		return words.Count(e.Attempts, "failed attempt") + ", and a relay tries again" + words.Either(e.Key != "", "; later messages of the key wait", "")
	case outbox.StateStopped:
		return words.Count(e.Attempts, "failed attempt") + ", and no relay tries again" + words.Either(e.Key != "", "; later messages of the key wait", "")
	case outbox.StateBlocked:
		return "an earlier message with the same ordering key has failed and is not delivered yet"
	case outbox.StateDelivered:
		return "the destination has confirmed the message"
	}
	return "this release of the command once does not know the state"
}
