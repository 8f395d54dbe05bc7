package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/operate"
)

var inboxListEntry = cli.Entry{
	Quick: true, Name: "inbox list", Brief: "which keys wait for a message",
	Help: `Lists keys of inboxes whose next message has not come, or is a dead letter, while later messages
wait for it (inbox.InOrder). The longest wait comes first, at most 1000 keys for each consumer. SEQ
is the number of the message that the key waits for.

Have the message sent again, redrive its dead letter, or give it up with once inbox skip.`,
	Make: func() cli.Runner { return new(inboxList) },
}

type inboxList struct {
	db     string
	filter operate.GapFilter
	output cli.Form
}

func (c *inboxList) Flags(fs *pflag.FlagSet) {
	cli.DBFlag(fs, &c.db)
	fs.StringVar(&c.filter.Consumer, "consumer", "", "only of the inbox of this `CONSUMER`")
	cli.WindowFlags(fs, &c.filter.Window)
	c.output.Flag(fs)
}

// inboxPage is a list for scripts. Its JSON form is a contract with them.
type inboxPage struct {
	Keys []inboxGap `json:"items"`
	Next string     `json:"next,omitempty"`
}

// inboxGap is a key that waits.
type inboxGap struct {
	Consumer string    `json:"consumer"`
	Source   string    `json:"source"`
	Topic    string    `json:"topic"`
	Key      string    `json:"key"`
	Seq      int64     `json:"seq"` // of the message that it waits for
	Parked   int64     `json:"parked"`
	Since    time.Time `json:"since"`
	Dead     bool      `json:"dead"` // the message is a dead letter
}

func (c *inboxList) Run(ctx context.Context, m *cli.Env, _ []string) error {
	if err := cli.CheckLimit(c.filter.Limit); err != nil {
		return err
	}
	if err := checkConsumer(c.filter.Consumer); err != nil {
		return err
	}
	db, err := openInbox(ctx, m, c.db)
	if err != nil {
		return err
	}
	defer db.Close()
	page, err := c.page(ctx, db)
	if err != nil {
		return db.refused("read", err)
	}
	if c.output != cli.Table {
		return cli.WriteList(m.Stdout, c.output, page, page.Keys)
	}
	if len(page.Keys) == 0 {
		return m.Empty("keys that wait for a message")
	}
	if err := page.print(m.Stdout); err != nil {
		return err
	}
	if err := m.More(page.Next); err != nil {
		return err
	}
	if i := slices.IndexFunc(page.Keys, func(g inboxGap) bool { return g.Dead }); i >= 0 {
		g := page.Keys[i]
		fmt.Fprintf(m.Stderr, "A key waits for a dead letter. Try: once deadletter list --letters --origin inbox --consumer %s --topic %s --key %s --db %s\n", cli.Quoted(g.Consumer), cli.Quoted(g.Topic), cli.Quoted(g.Key), db.Paste)
	}
	if i := slices.IndexFunc(page.Keys, func(g inboxGap) bool { return !g.Dead }); i >= 0 {
		fmt.Fprintf(m.Stderr, "A key waits for a message that has not come. Try: have it sent again, or %s\n", page.Keys[i].command("skip", db))
	}
	return nil
}

func (c *inboxList) page(ctx context.Context, db *inboxDB) (inboxPage, error) {
	page := inboxPage{Keys: []inboxGap{}}
	p, err := db.Inbox.List(ctx, c.filter)
	for _, g := range p.Items {
		page.Keys = append(page.Keys, inboxGap{g.Consumer, g.Source, g.Topic, g.Key, g.Seq, g.Parked, g.Since.UTC(), g.Dead})
	}
	page.Next = p.Next
	return page, err
}

func (p inboxPage) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "CONSUMER\tSOURCE\tTOPIC\tKEY\tSEQ\tIS\tPARKED\tSINCE\n")
	for _, g := range p.Keys {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%s\t%d\t%s\n", cli.Shown(g.Consumer), cli.Shown(g.Source), cli.OrDash(g.Topic), cli.Shown(g.Key), g.Seq,
			cli.Either(g.Dead, "a dead letter", "missing"), g.Parked, g.Since.Format(time.RFC3339))
	}
	return t.Flush()
}

// command is a command line for the message that the key waits for.
func (g inboxGap) command(name string, db *inboxDB) string {
	return fmt.Sprintf("once inbox %s --consumer %s --source %s --topic %s --key %s --seq %d --reason WHY --db %s", name, cli.Quoted(g.Consumer), cli.Quoted(g.Source), cli.Quoted(g.Topic), cli.Quoted(g.Key), g.Seq, db.Paste)
}
