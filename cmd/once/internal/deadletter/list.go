package deadletter

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/operate"
)

var listEntry = cli.Entry{
	Quick: true, Name: "deadletter list", Brief: "list dead letters by cause",
	Help: `A dead letter is a message that an inbox or a relay has given up. If the messages of a key have an order, later
messages of the key wait until the dead letter is redriven (tried again) or discarded.

The command lists the causes of dead letters, the most frequent cause first. A cause is an error text without numbers
and IDs. For each cause the command prints the number of dead letters, and the number of these dead letters that wait in
a redrive. With --letters the command lists each dead letter. --since and --before choose dead letters by the time at
which the message was given up: a time (2026-01-31T12:00:00Z), or a duration before now (90m, 72h) by the clock of the
database.`,
	Make: func() cli.Runner { return new(list) },
}

type list struct {
	db, state string
	output    cli.Form
	filter    letterFilter
	letters   bool
}

func (c *list) Flags(fs *pflag.FlagSet) {
	cli.DBFlag(fs, &c.db)
	c.filter.Flags(fs)
	fs.BoolVar(&c.letters, "letters", false, "list each dead letter (default: list only the causes)")
	fs.StringVar(&c.state, "state", "dead", "only dead letters in this `STATE`: dead, applied, stale or discarded")
	cli.WindowFlags(fs, &c.filter.Window)
	c.output.Flag(fs)
}

// page is a list for scripts. Its JSON form is a contract with them.
type page struct {
	Causes   []operate.LetterCause `json:"causes,omitzero"` // without --letters
	Letters  []operate.Letter      `json:"items,omitzero"`  // with --letters
	Redrives []operate.Redrive     `json:"redrives"`        // redrives that are not complete
	Next     string                `json:"next,omitempty"`
}

func (c *list) Run(ctx context.Context, m *cli.Env, _ []string) error {
	if err := cli.CheckLimit(c.filter.Window.Limit); err != nil {
		return err
	}
	c.filter.State = deadletter.State(c.state)
	db, err := m.Open(ctx, c.db, operate.Config{})
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := c.filter.resolve(ctx, db); err != nil {
		return err
	}
	page, err := c.page(ctx, db)
	if err != nil {
		return refused(db, "read", err)
	}
	if c.output != cli.Table {
		if c.letters {
			return cli.WriteList(m.Stdout, c.output, page, page.Letters)
		}
		return cli.WriteList(m.Stdout, c.output, page, page.Causes)
	}
	if len(page.Causes)+len(page.Letters) == 0 {
		err = m.Empty("dead letters that match the flags")
	} else {
		err = page.print(m.Stdout, c.letters)
	}
	if err != nil {
		return err
	}
	if err := m.More(page.Next); err != nil {
		return err
	}
	for _, r := range page.Redrives {
		fmt.Fprintf(m.Stderr, "A redrive of %s is not complete: the redrive is running, or was killed. Try: once deadletter redrive --resume %s --db %s\n", words.Shown(r.Who), r.UID, db.Paste)
	}
	return nil
}

func (c *list) page(ctx context.Context, db *cli.DB) (p page, err error) {
	if p.Redrives, err = db.Letters.Redrives(ctx); err != nil {
		return p, err
	}
	if !c.letters {
		p.Causes, err = db.Letters.Causes(ctx, c.filter.LetterFilter)
		return p, err
	}
	list, err := db.Letters.List(ctx, c.filter.LetterFilter)
	p.Letters, p.Next = list.Items, list.Next
	return p, err
}

func (p page) print(w io.Writer, letters bool) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if !letters {
		fmt.Fprint(t, "DEAD LETTERS\tIN A REDRIVE\tORIGIN\tTOPIC\tCLASS\tCAUSE\tNEWEST\tEXAMPLE\n")
		for _, g := range p.Causes {
			fmt.Fprintf(t, "%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", g.Letters, g.Waiting, originOf(g.Origin, g.Consumer), words.OrDash(g.Topic), words.Shown(g.Class), words.Shown(g.Cause), words.Time(g.Newest), g.UID)
		}
		return t.Flush()
	}
	fmt.Fprint(t, "UID\tORIGIN\tTOPIC\tKEY\tTYPE\tSTATE\tFAILED\tDEAD\tERROR\n")
	for _, l := range p.Letters {
		state := string(l.State) + words.Either(!l.RedriveAt.IsZero(), ", redriven", "")
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", l.UID, originOf(l.Origin, l.Consumer), words.OrDash(l.Topic), words.OrDash(l.Key), words.OrDash(l.Type), state, l.Attempts, words.Time(l.DeadAt), words.Shown(l.Error))
	}
	return t.Flush()
}

// originOf names the origin of a letter: "inbox billing".
func originOf(origin, consumer string) string {
	if consumer == "" {
		return origin
	}
	return origin + " " + words.Shown(consumer)
}
