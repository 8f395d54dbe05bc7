package main

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
	"github.com/oncelib/once/operate"
)

var deadletterShowEntry = cli.Entry{
	Quick: true, Name: "deadletter show", Args: "UID", Brief: "why a message was given up",
	Help: `Prints what the database knows of a dead letter: the message, every failed delivery with its
time, process and error, and what can be done. The payload and the headers are shown only with
--payload, and if the service encrypts them, only with --key-file as well. Those of a letter of an
outbox are in the outbox: see once outbox show.`,
	Make: func() cli.Runner { return new(deadletterShow) },
}

type deadletterShow struct{ messageFlags }

func (c *deadletterShow) Run(ctx context.Context, m *cli.Env, args []string) error {
	if len(args) == 0 || args[0] == "" {
		return cli.Usage("which letter?", "once deadletter show UID --db URL, with a UID of once deadletter list")
	}
	encrypter, err := c.key.encrypter()
	if err != nil {
		return err
	}
	db, err := openLetters(ctx, m, c.db, operate.Config{Encrypter: encrypter})
	if err != nil {
		return err
	}
	defer db.Close()
	l, attempts, err := db.Letters.Show(ctx, args[0])
	switch {
	case err != nil && l.UID == "":
		return db.refused("read", err)
	case c.payload && l.Encrypted && encrypter == nil:
		return cli.Usage("the letter is encrypted", "--key-file with the key of the service")
	case c.payload && err != nil:
		return err
	}
	if c.output != cli.Table {
		j := newLetterEntry(l)
		if c.payload {
			j.Headers, j.Payload = l.Headers, l.Payload
		}
		for _, a := range attempts {
			j.Failures = append(j.Failures, letterFailure{a.Number, a.At.UTC(), a.Node, a.Error, a.Trace})
		}
		return cli.WriteJSON(m.Stdout, c.output, j)
	}
	if err := c.print(m.Stdout, l, attempts); err != nil {
		return err
	}
	if l.State == deadletter.StateDead && l.RedriveAt.IsZero() {
		fmt.Fprintf(m.Stderr, "\nTry: once deadletter redrive %s --reason WHY --db %s when the cause is removed, or once deadletter discard %s --reason WHY --db %s\n", l.UID, db.Paste, l.UID, db.Paste)
	}
	return nil
}

func (c *deadletterShow) print(w io.Writer, l deadletter.Letter, attempts []deadletter.Attempt) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) { fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	at := func(name string, at time.Time) {
		if !at.IsZero() {
			line(name, "%s", at.UTC().Format(time.RFC3339))
		}
	}
	line("uid", "%s", l.UID)
	line("of", "%s", originOf(l.Origin, l.Consumer))
	line("message", "%s of %s", cli.Shown(l.EventID), cli.Shown(l.Source))
	line("topic", "%s", cli.OrDash(l.Topic))
	if l.Key != "" {
		line("key", "%s%s", cli.Shown(l.Key), cli.Either(l.Seq > 0, fmt.Sprintf(", message %d", l.Seq), ""))
	}
	line("type", "%s", cli.OrDash(l.Type))
	line("state", "%s: %s", l.State, letterMeaning(l))
	at("created", l.CreatedAt)
	at("failed first", l.FirstFailedAt)
	at("dead", l.DeadAt)
	at("next try", l.RedriveAt)
	at("resolved", l.ResolvedAt)
	line("class", "%s", cli.Shown(l.Class))
	line("error", "%s", cli.Shown(l.Error))
	if l.Redrive != "" {
		line("redrive", "%s", l.Redrive)
	}
	if l.Reason != "" {
		line("reason", "%s", cli.Shown(l.Reason))
	}
	if l.Trace != "" {
		line("trace", "%s", cli.Shown(l.Trace))
	}
	for _, name := range slices.Sorted(maps.Keys(l.Headers)) {
		if c.payload {
			line("header", "%s: %s", cli.Shown(name), cli.Shown(l.Headers[name]))
		}
	}
	if len(attempts) > 0 {
		fmt.Fprint(t, "\nFAILED\tAT\tNODE\tERROR\tTRACE\n")
	}
	for _, a := range attempts {
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\n", a.Number, a.At.UTC().Format(time.RFC3339), cli.OrDash(a.Node), cli.Shown(a.Error), cli.OrDash(a.Trace))
	}
	return c.printBody(w, t, l.Payload)
}

// letterMeaning says what a state means to a person who was woken up by it.
func letterMeaning(l deadletter.Letter) string {
	switch l.State {
	case deadletter.StateDead:
		return cli.Count(l.Attempts, "failed attempt") + cli.Either(l.RedriveAt.IsZero(), ", it waits for a person", ", it is tried again") + cli.Either(l.Seq > 0, "; later messages of its key may wait for it", "")
	case deadletter.StateApplied:
		return "a redrive has succeeded"
	case deadletter.StateStale:
		return "nothing was left to do: it was applied before, or a newer version was"
	case deadletter.StateDiscarded:
		return "a person has given it up"
	}
	return "not known to this release"
}
