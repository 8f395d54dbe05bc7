package deadletter

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/operate"
)

var showEntry = cli.Entry{
	Quick: true, Name: "deadletter show", Args: "UID", Brief: "print a dead letter, and why its message was given up",
	Help: `Prints a dead letter: the message, every failed delivery with its time, process and error, and the actions
that you can take. The payload and the headers are printed only with --payload. If the service encrypts the payload and
the headers, the command also needs --key-file. The payload of a dead letter of an outbox is in the outbox: run "once
outbox show ID --payload".`,
	Make: func() cli.Runner { return new(show) },
}

type show struct{ cli.MessageFlags }

func (c *show) Run(ctx context.Context, m *cli.Env, args []string) error {
	if len(args) == 0 || args[0] == "" {
		return cli.Usage("the UID of the dead letter is missing", "once deadletter show UID --db URL, with a UID of once deadletter list")
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
	l, err := db.Letters.Show(ctx, args[0])
	switch {
	case err != nil && l.UID == "":
		return refused(db, "read", err)
	case c.Payload && l.Encrypted && encrypter == nil:
		return cli.Usage("the payload of the dead letter is encrypted", "--key-file with the encryption key of the service")
	case c.Payload && err != nil:
		return err
	}
	if c.Output != cli.Table {
		if !c.Payload {
			l = l.WithoutBody()
		}
		return cli.WriteJSON(m.Stdout, c.Output, l)
	}
	if err := c.print(m.Stdout, l); err != nil {
		return err
	}
	switch {
	case l.State != deadletter.StateDead || !l.RedriveAt.IsZero():
	case l.Class == "mismatch": // an inbox gives such a message to no handler, whatever an operator repairs
		fmt.Fprintf(m.Stderr, "\nA redrive cannot apply this message. Try: have the sender send the message with an ID and a Seq of its own, and then run once deadletter discard %s --reason WHY --db %s\n", l.UID, db.Paste)
	case l.Class == "malformed":
		fmt.Fprintf(m.Stderr, "\nA redrive cannot apply this message. Try: have the sender send a valid message with the same ID, which the inbox applies. If this dead letter still waits after that, run once deadletter discard %s --reason WHY --db %s. Do not discard the dead letter earlier, because the inbox does not apply the message of a discarded dead letter\n", l.UID, db.Paste)
	case l.Class == "too_large":
		fmt.Fprintf(m.Stderr, "\nThe payload was not stored, so a redrive cannot apply this message. Try: set a larger inbox.Config.MaxPayload, and have the sender send the same message again, with the same ID. Then the inbox applies it in place of this dead letter. If the message is not needed any more, run once deadletter discard %s --reason WHY --db %s; after that the inbox does not apply the message\n", l.UID, db.Paste)
	default:
		fmt.Fprintf(m.Stderr, "\nTry: once deadletter redrive %s --reason WHY --db %s when you have repaired the cause, or once deadletter discard %s --reason WHY --db %s\n", l.UID, db.Paste, l.UID, db.Paste)
	}
	return nil
}

func (c *show) print(w io.Writer, l operate.Letter) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) { fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	at := func(name string, at time.Time) {
		if !at.IsZero() {
			line(name, "%s", words.Time(at))
		}
	}
	line("uid", "%s", l.UID)
	line("of", "%s", originOf(l.Origin, l.Consumer))
	line("message", "%s of %s", words.Shown(l.EventID), words.Shown(l.Source))
	line("topic", "%s", words.OrDash(l.Topic))
	if l.Key != "" {
		line("key", "%s%s", words.Shown(l.Key), words.Either(l.Seq > 0, fmt.Sprintf(", message %d", l.Seq), ""))
	}
	line("type", "%s", words.OrDash(l.Type))
	line("state", "%s: %s", l.State, letterMeaning(l))
	at("created", l.CreatedAt)
	at("failed first", l.FirstFailedAt)
	at("dead", l.DeadAt)
	at("next try", l.RedriveAt)
	at("resolved", l.ResolvedAt)
	line("class", "%s", words.Shown(l.Class))
	line("error", "%s", words.Shown(l.Error))
	if l.Redrive != "" {
		line("redrive", "%s", l.Redrive)
	}
	if l.Reason != "" {
		line("reason", "%s", words.Shown(l.Reason))
	}
	if l.Trace != "" {
		line("trace", "%s", words.Shown(l.Trace))
	}
	for _, name := range slices.Sorted(maps.Keys(l.Headers)) {
		if c.Payload {
			line("header", "%s: %s", words.Shown(name), words.Shown(l.Headers[name]))
		}
	}
	if len(l.Failures) > 0 {
		fmt.Fprint(t, "\nFAILED\tAT\tNODE\tERROR\tTRACE\n")
	}
	for _, a := range l.Failures {
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\n", a.Attempt, words.Time(a.At), words.OrDash(a.Node), words.Shown(a.Error), words.OrDash(a.Trace))
	}
	return c.PrintBody(w, t, l.Payload)
}

// letterMeaning explains a state to an operator who sees it for the first time.
func letterMeaning(l operate.Letter) string {
	switch l.State {
	case deadletter.StateDead:
		return words.Count(l.Attempts, "failed attempt") + words.Either(l.RedriveAt.IsZero(), ", and the message waits for the decision of an operator", ", and the message is tried again") + words.Either(l.Seq > 0, "; later messages of the same key may wait for this message", "")
	case deadletter.StateApplied:
		return "a redrive has delivered or applied the message"
	case deadletter.StateStale:
		return "a redrive had nothing to do: the message, or a newer version of the message, was applied before"
	case deadletter.StateDiscarded:
		return "an operator has discarded the message"
	}
	return "this release of the command once does not know the state"
}
