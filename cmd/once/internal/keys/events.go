package keys

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/operate"
)

// followed is all stored facts about a key and the effects of its operation. Its JSON form is a contract with scripts.
type followed struct {
	operate.KeyView
	operate.Trail
}

// follow prints an operation, and then its effects.
func (c *show) follow(ctx context.Context, m *cli.Env, db *cli.DB, v operate.KeyView) error {
	t, err := db.Trail(ctx, v.Operation.ID())
	if err != nil {
		return db.Failed("read", err)
	}
	if c.output != cli.Table {
		return cli.WriteJSON(m.Stdout, c.output, followed{v, t})
	}
	if err := printView(m.Stdout, v, db.Source); err != nil {
		return err
	}
	return printTrail(m.Stdout, t)
}

func printTrail(out io.Writer, t operate.Trail) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if len(t.Steps) > 0 {
		fmt.Fprint(w, "\nSTEP\tSTATE\tFAILURE\n")
	}
	for _, s := range t.Steps {
		fmt.Fprintf(w, "%s\t%s\t%s\n", words.Shown(s.Step), s.State, words.OrDash(s.Failure))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(t.Events) == 0 {
		_, err := fmt.Fprint(out, "\nThe operation has added no event to an outbox, and sent no webhook.\n")
		return err
	}
	fmt.Fprint(w, "\nEVENT\tTOPIC\tTYPE\tSTATE\tFAILED\tBY\n")
	for _, e := range t.Events {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\n", e.ID, words.OrDash(e.Topic), words.OrDash(e.Type), e.State+words.Either(e.Paused, ", paused", ""), e.Attempts, words.OrDash(e.Step))
		for _, s := range e.Inbox {
			fmt.Fprintf(w, "  inbox %s\t\t\t%s\t\t\n", words.Shown(s.Consumer), s.State)
		}
		if e.Sent == nil {
			continue
		}
		for _, d := range e.Sent.Deliveries {
			fmt.Fprintf(w, "  webhook %s\t\t\t%s\t%d\t\n", d.Endpoint, d.State, d.Failures)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if t.Cut {
		fmt.Fprint(out, "The operation may have added more events: its record names the first 64 events.\n")
	}
	if slices.ContainsFunc(t.Events, func(e operate.Event) bool { return e.State == operate.EventGone }) {
		// An ordered inbox can be searched only by these facts.
		fmt.Fprint(out, "After the delivery of an event, the outbox deletes the event with its topic, key and number. To keep delivered events, set\noutbox.Config.RetainDelivered, or use once relay --keep.\n")
	}
	_, err := fmt.Fprint(out, ` Try: once outbox show ID, while the event is in the outbox; once webhook show ENDPOINT
ID for a webhook; and in the database of a consumer once inbox show ID, with the --topic, --key and --seq that once
outbox show prints if the inbox is ordered `)
	return err
}
