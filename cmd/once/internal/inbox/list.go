package inbox

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/operate"
)

var listEntry = cli.Entry{
	Quick: true, Name: "inbox list", Brief: "list the keys of inboxes that wait for a message",
	Help: `Lists the keys of ordered inboxes (inbox.InOrder) that wait for a message. The next message of a waiting key is missing,
is failing, or is a dead letter, and the later messages of the key wait. The key with the longest wait is first in the
list. The list has at most 1000 keys for each consumer. SEQ is the number of the message for which the key waits.

missing: the inbox has not received the message. Have the sender send the message again, or give up the
         message with "once inbox skip".
failing: the inbox has received the message, and its handler fails. The inbox tries the message again. When all attempts
         have failed (10, unless Config.Policy sets another number), the message becomes a dead letter. Repair the
         handler; do not skip the message.
a dead letter: the inbox has given up the message. Run "once deadletter redrive" to try the message again, or "once
         deadletter discard" to delete the message.`,
	Make: func() cli.Runner { return new(list) },
}

type list struct {
	db     string
	filter operate.GapFilter
	output cli.Form
}

func (c *list) Flags(fs *pflag.FlagSet) {
	cli.DBFlag(fs, &c.db)
	fs.StringVar(&c.filter.Consumer, "consumer", "", "list only keys of the inbox of this `CONSUMER`")
	cli.WindowFlags(fs, &c.filter.Window)
	c.output.Flag(fs)
}

func (c *list) Run(ctx context.Context, m *cli.Env, _ []string) error {
	if err := cli.CheckLimit(c.filter.Limit); err != nil {
		return err
	}
	if err := checkConsumer(c.filter.Consumer); err != nil {
		return err
	}
	db, err := m.Open(ctx, c.db, operate.Config{})
	if err != nil {
		return err
	}
	defer db.Close()
	p, err := db.Inbox.List(ctx, c.filter)
	if err != nil {
		return refused(db, "read", err)
	}
	if err := cli.ShowPage(m, c.output, p, "keys that wait for a message", printGaps); err != nil || c.output != cli.Table {
		return err
	}
	if i := slices.IndexFunc(p.Items, func(g operate.Gap) bool { return g.Dead }); i >= 0 {
		g := p.Items[i]
		fmt.Fprintf(m.Stderr, "The next message of a key is a dead letter, and later messages wait for this dead letter. Try: once deadletter list --letters --origin inbox --consumer %s --topic %s --key %s --db %s\n", words.Quoted(g.Consumer), words.Quoted(g.Topic), words.Quoted(g.Key), db.Paste)
	}
	if i := slices.IndexFunc(p.Items, func(g operate.Gap) bool { return g.What() == "failing" }); i >= 0 {
		g := p.Items[i]
		fmt.Fprintf(m.Stderr, "Message %d of the key %s %s. %s Try: repair the handler; do not skip the message\n", g.Seq, words.Shown(g.Key), g.Failure(), isTried)
	}
	if i := slices.IndexFunc(p.Items, func(g operate.Gap) bool { return g.What() == "missing" }); i >= 0 {
		g := p.Items[i]
		fmt.Fprintf(m.Stderr, "The inbox has not received the next message of a key, and later messages wait for the missing message. Try: let the sender send the message again, or once inbox skip --consumer %s --source %s --topic %s --key %s --seq %d --reason WHY --db %s\n",
			words.Quoted(g.Consumer), words.Quoted(g.Source), words.Quoted(g.Topic), words.Quoted(g.Key), g.Seq, db.Paste)
	}
	return nil
}

func printGaps(w io.Writer, list []operate.Gap) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "CONSUMER\tSOURCE\tTOPIC\tKEY\tSEQ\tIS\tPARKED\tSINCE\n")
	for _, g := range list {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%s\t%d\t%s\n", words.Shown(g.Consumer), words.Shown(g.Source), words.OrDash(g.Topic), words.Shown(g.Key), g.Seq,
			g.What(), g.Parked, words.Time(g.Since))
	}
	return t.Flush()
}
