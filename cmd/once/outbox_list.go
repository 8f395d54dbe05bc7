package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/outbox"
)

var outboxListEntry = cli.Entry{
	Quick: true, Name: "outbox list", Brief: "which messages wait for their delivery",
	Help: `Lists the messages of the outbox that are not delivered, the oldest first, the topics and
keys that are paused, and the topics that wait for something else: a destination that is
down or does not answer, a rate, or messages that fail; with since when, and the error. Relays
tell what only they know every five seconds. Payloads and headers are not shown.

The states: waiting for a relay; failing, which is tried again; stopped, which waits for a
person; blocked, because an earlier message of the same key is failing or stopped.
With --state delivered it lists delivered messages, if they are kept.

If there are more than --limit, the command for the next page is printed to standard
error; in JSON "next" has the value for --after.`,
	Make: func() cli.Runner { return new(outboxList) },
}

type outboxList struct {
	db, state string
	output    cli.Form
	filter    operate.MessageFilter
}

// outboxStates are the states of a message.
var outboxStates = []outbox.State{
	outbox.StateWaiting, outbox.StateFailing, outbox.StateStopped, outbox.StateBlocked, outbox.StateDelivered,
}

func (c *outboxList) Flags(fs *pflag.FlagSet) {
	cli.DBFlag(fs, &c.db)
	fs.StringVar(&c.filter.Topic, "topic", "", "only of this `TOPIC`")
	fs.StringVar(&c.filter.Key, "key", "", "only of this `KEY` of the topic")
	fs.StringVar(&c.state, "state", "", "only in this `STATE`: waiting, failing, stopped, blocked or delivered")
	cli.WindowFlags(fs, &c.filter.Window)
	c.output.Flag(fs)
}

func (c *outboxList) Run(ctx context.Context, m *cli.Env, _ []string) error {
	if err := cli.CheckLimit(c.filter.Limit); err != nil {
		return err
	}
	if c.filter.State = outbox.State(c.state); c.state != "" && !slices.Contains(outboxStates, c.filter.State) {
		return cli.Usage(fmt.Sprintf("there is no state %q", c.state), "--state waiting, failing, stopped, blocked, or delivered")
	}
	if c.filter.Key != "" && c.filter.Topic == "" {
		return cli.Usage("--key is one of a topic, and --topic is missing", "once outbox list --topic TOPIC --key KEY --db URL")
	}
	db, err := openOutbox(ctx, m, c.db, operate.Config{})
	if err != nil {
		return err
	}
	defer db.Close()
	p, err := db.Outbox.List(ctx, c.filter)
	list := p.Items
	if err != nil {
		return db.refused("read", err)
	}
	pauses, err := db.Outbox.Pauses(ctx)
	if err != nil {
		return db.refused("read", err)
	}
	topics, err := db.Outbox.Topics(ctx)
	if err != nil {
		return db.refused("read", err)
	}
	if c.output != cli.Table {
		page := newOutboxPage(list, pauses, p.Next)
		page.Topics = newOutboxWaits(topics, c.filter.Topic)
		return cli.WriteList(m.Stdout, c.output, page, page.Messages)
	}
	if len(list)+len(pauses) == 0 && len(newOutboxWaits(topics, c.filter.Topic)) == 0 {
		return m.Empty("such messages")
	}
	if err := printOutbox(m.Stdout, list, pauses); err != nil {
		return err
	}
	if err := printWaits(m.Stdout, topics, c.filter.Topic); err != nil {
		return err
	}
	if err := m.More(p.Next); err != nil {
		return err
	}
	if i := slices.IndexFunc(list, func(e outbox.Entry) bool { return e.State == outbox.StateStopped }); i >= 0 {
		fmt.Fprintf(m.Stderr, "A message is stopped, and its key waits for you. Try: once outbox show %s --db %s\n", list[i].ID, db.Paste)
	}
	return nil
}

// outboxPage is a list for scripts. Its JSON form is a contract with them.
type outboxPage struct {
	Messages []outboxEntry `json:"items"`
	Paused   []outboxPause `json:"paused"`
	Topics   []outboxWait  `json:"topics"` // what messages of topics wait for beside pauses
	Next     string        `json:"next,omitempty"`
}

type outboxPause struct {
	Topic  string    `json:"topic"`
	Key    string    `json:"key"` // "" is the whole topic
	Reason string    `json:"reason"`
	Since  time.Time `json:"since"`
}

func newOutboxPage(list []outbox.Entry, pauses []outbox.Pause, next string) outboxPage {
	p := outboxPage{Messages: []outboxEntry{}, Paused: []outboxPause{}, Next: next}
	for _, e := range list {
		p.Messages = append(p.Messages, newOutboxEntry(e))
	}
	for _, e := range pauses {
		p.Paused = append(p.Paused, outboxPause{e.Topic, e.Key, e.Reason, e.PausedAt.UTC()})
	}
	return p
}

func printOutbox(w io.Writer, list []outbox.Entry, pauses []outbox.Pause) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "ID\tTOPIC\tKEY\tSEQ\tTYPE\tSTATE\tFAILED\tBYTES\tCREATED\n")
	for _, e := range list {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%s\n", e.ID, cli.Shown(e.Topic), cli.OrDash(e.Key), sequence(e), cli.Shown(e.Type),
			standing(e), e.Attempts, e.PayloadBytes, e.CreatedAt.UTC().Format(time.RFC3339))
	}
	if err := t.Flush(); err != nil || len(pauses) == 0 {
		return err
	}
	fmt.Fprint(t, "\nPAUSED TOPIC\tKEY\tSINCE\tREASON\n")
	for _, p := range pauses {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", cli.Shown(p.Topic), cli.OrDash(p.Key), p.PausedAt.UTC().Format(time.RFC3339), cli.Shown(p.Reason))
	}
	return t.Flush()
}

// standing is where a message stands, in a word or two.
func standing(e outbox.Entry) string {
	return string(e.State) + cli.Either(e.Paused && e.State != outbox.StateDelivered, ", paused", "")
}

func sequence(e outbox.Entry) string {
	if e.Seq == 0 {
		return "-"
	}
	return strconv.FormatInt(e.Seq, 10)
}
