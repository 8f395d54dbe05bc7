package inbox

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/operate"
)

var showEntry = cli.Entry{
	Quick: true, Name: "inbox show", Args: "[EVENT]", Brief: "print the records of all inboxes of a database about an event",
	Help: `Prints the records of each inbox of a database about an event: the time at which the inbox applied the event, the failed
attempts, and the dead letter. The command also prints whether the event is parked (waits for earlier messages of its
key). EVENT is the ID of the event. Log lines contain the ID of the event as event_id. The state "failing" means that
attempts to apply the event have failed, and that no inbox has the ID of the event among its applied IDs.

An ordered inbox (inbox.InOrder or inbox.LatestVersion) stores only the number of the last message of a key, not the IDs
of messages. To search ordered inboxes too, give --topic, --key and --seq, as "once outbox show" prints them. With
--topic, --key and --seq, EVENT is optional: without EVENT, the command prints the ordered inboxes that have applied or
parked the message.

The exit code is 3 if no inbox has stored the event. If an event was applied long ago, the inbox may have deleted its
ID.`,
	Make: func() cli.Runner { return new(show) },
}

type show struct {
	db      string
	message message.Message
	output  cli.Form
}

func (c *show) Flags(fs *pflag.FlagSet) {
	cli.DBFlag(fs, &c.db)
	fs.StringVar(&c.message.Source, "source", "", "search only for events of this `SOURCE` (default: all sources)")
	fs.StringVar(&c.message.Topic, "topic", "", "the `TOPIC` of the event, to search ordered inboxes too")
	fs.StringVar(&c.message.Key, "key", "", "the `KEY` of the event, to search ordered inboxes too")
	fs.Int64Var(&c.message.Seq, "seq", 0, "the `NUMBER` of the event within its key, to search ordered inboxes too")
	c.output.Flag(fs)
}

func (c *show) Run(ctx context.Context, m *cli.Env, args []string) error {
	const try = "once inbox show EVENT --db URL, where EVENT is the event_id of a log line; or --topic, --key and --seq"
	switch {
	case len(args) > 0 && args[0] != "":
		c.message.ID = args[0]
	case c.message.Topic == "" || c.message.Key == "" || c.message.Seq == 0:
		return cli.Usage("the ID of the event is missing", try)
	}
	if err := c.message.Check(); err != nil {
		return cli.Usage(err.Error(), try)
	}
	db, err := m.Open(ctx, c.db, operate.Config{})
	if err != nil {
		return err
	}
	defer db.Close()
	list, err := db.Inbox.Find(ctx, c.message)
	if err != nil {
		return refused(db, "read", err)
	}
	if c.output != cli.Table {
		err = cli.WriteList(m.Stdout, c.output, operate.Page[operate.InboxEvent]{Items: list}, list)
	} else if len(list) > 0 {
		err = printEvents(m.Stdout, list)
	}
	switch {
	case err != nil || len(list) > 0:
		return err
	case c.message.ID == "":
		return cli.Nothing(fmt.Errorf("no ordered inbox of %s has applied or parked message %d of the key %s. Try: use the ID of the event, to find failed attempts and dead letters too; or run once inbox list, which prints the messages that keys wait for", db.Name, c.message.Seq, words.Shown(c.message.Key)))
	}
	return cli.Nothing(fmt.Errorf("no inbox of %s has stored the event %s. Try: use --topic, --key and --seq for an ordered inbox; or once outbox show %s in the database of the sender", db.Name, words.Shown(c.message.ID), words.Quoted(c.message.ID)))
}

func printEvents(w io.Writer, list []operate.InboxEvent) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "CONSUMER\tSOURCE\tSTATE\tRECEIVED\tAPPLIED\tDEAD LETTER\tFAILED\tLAST ERROR\n")
	for _, s := range list {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", words.Shown(s.Consumer), words.Shown(s.Source), s.State+words.Either(s.ByNumber, ", matched by its number", ""),
			words.Time(s.ReceivedAt), words.Time(s.AppliedAt), words.OrDash(s.Letter), failed(s), words.OrDash(s.Error))
	}
	return t.Flush()
}

// failed says how often an event has failed, and when it last failed.
func failed(s operate.InboxEvent) string {
	if s.Failed == 0 {
		return "-"
	}
	return fmt.Sprintf("%d, last %s", s.Failed, words.Time(s.FailedAt))
}
