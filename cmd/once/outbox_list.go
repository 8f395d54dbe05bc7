package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/oncelib/once/outbox"
)

var outboxListEntry = entry{
	quick: true, name: "outbox list", brief: "which messages wait for their delivery",
	help: `Lists the messages of the outbox that are not delivered, the oldest first, the topics and
keys that are paused, and the topics that wait for something else: a destination that is
down or does not answer, a rate, or messages that fail; with since when, and the error. Relays
tell what only they know every five seconds. Payloads and headers are not shown.

The states: waiting for a relay; failing, which is tried again; stopped, which waits for a
person; blocked, because an earlier message of the same key is failing or stopped.
With --state delivered it lists delivered messages, if they are kept.

If there are more than --limit, the command for the next page is printed to standard
error; in JSON "next" has the value for --after.`,
	make: func() command { return new(outboxList) },
}

type outboxList struct {
	db, state, output string
	filter            outbox.Filter
}

// outboxStates are the states of a message.
var outboxStates = []outbox.State{
	outbox.StateWaiting, outbox.StateFailing, outbox.StateStopped, outbox.StateBlocked, outbox.StateDelivered,
}

const defaultOutboxLimit = 50

func (c *outboxList) flags(fs *flag.FlagSet) {
	fs.StringVar(&c.db, "db", "", dbUsage)
	fs.StringVar(&c.filter.Topic, "topic", "", "only of this `TOPIC`")
	fs.StringVar(&c.filter.Key, "key", "", "only of this `KEY` of the topic")
	fs.StringVar(&c.state, "state", "", "only in this `STATE`: waiting, failing, stopped, blocked or delivered")
	fs.IntVar(&c.filter.Limit, "limit", defaultOutboxLimit, "at most `N`")
	fs.Int64Var(&c.filter.After, "after", 0, "go on behind this `CURSOR` of the page before")
	fs.StringVar(&c.output, "o", "text", "`FORM` of the output: text or json")
}

func (c *outboxList) run(ctx context.Context, m *Main, _ []string) error {
	if err := checkForm(c.output); err != nil {
		return err
	}
	if c.filter.Limit < 1 {
		return &usageError{fmt.Sprintf("--limit %d", c.filter.Limit), fmt.Sprintf("--limit %d", defaultOutboxLimit)}
	}
	if c.filter.State = outbox.State(c.state); c.state != "" && !slices.Contains(outboxStates, c.filter.State) {
		return &usageError{fmt.Sprintf("there is no state %q", c.state), "--state waiting, failing, stopped, blocked, or delivered"}
	}
	if c.filter.Key != "" && c.filter.Topic == "" {
		return &usageError{"--key is one of a topic, and --topic is missing", "once outbox list --topic TOPIC --key KEY --db URL"}
	}
	db, err := m.openOutbox(ctx, c.db, outbox.Config{})
	if err != nil {
		return err
	}
	defer db.Close()
	list, next, err := db.List(ctx, c.filter)
	if err != nil {
		return db.refused("read", err)
	}
	pauses, err := db.Paused(ctx)
	if err != nil {
		return db.refused("read", err)
	}
	topics, err := db.Topics(ctx)
	if err != nil {
		return db.refused("read", err)
	}
	if c.output == "json" {
		page := newOutboxPage(list, pauses, next)
		page.Topics = newOutboxWaits(topics, c.filter.Topic)
		return writeJSON(m.Stdout, page)
	}
	if err := printOutbox(m.Stdout, list, pauses); err != nil {
		return err
	}
	if err := printWaits(m.Stdout, topics, c.filter.Topic); err != nil {
		return err
	}
	if next != 0 {
		fmt.Fprintf(m.Stderr, "There are more. Try: the same with --after %d\n", next)
	}
	if i := slices.IndexFunc(list, func(e outbox.Entry) bool { return e.State == outbox.StateStopped }); i >= 0 {
		fmt.Fprintf(m.Stderr, "A message is stopped, and its key waits for you. Try: once outbox show %s --db %s\n", list[i].ID, db.paste)
	}
	return nil
}

// outboxPage is a list for scripts. Its JSON form is a contract with them.
type outboxPage struct {
	Messages []outboxEntry `json:"messages"`
	Paused   []outboxPause `json:"paused"`
	Topics   []outboxWait  `json:"topics"` // what messages of topics wait for beside pauses
	Next     int64         `json:"next,omitempty"`
}

type outboxPause struct {
	Topic  string    `json:"topic"`
	Key    string    `json:"key"` // "" is the whole topic
	Reason string    `json:"reason"`
	Since  time.Time `json:"since"`
}

func newOutboxPage(list []outbox.Entry, pauses []outbox.Pause, next int64) outboxPage {
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
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%s\n", e.ID, shown(e.Topic), orDash(e.Key), sequence(e), shown(e.Type),
			standing(e), e.Attempts, e.PayloadBytes, e.CreatedAt.UTC().Format(time.RFC3339))
	}
	if err := t.Flush(); err != nil || len(pauses) == 0 {
		return err
	}
	fmt.Fprint(t, "\nPAUSED TOPIC\tKEY\tSINCE\tREASON\n")
	for _, p := range pauses {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", shown(p.Topic), orDash(p.Key), p.PausedAt.UTC().Format(time.RFC3339), shown(p.Reason))
	}
	return t.Flush()
}

// standing is where a message stands, in a word or two.
func standing(e outbox.Entry) string {
	return string(e.State) + either(e.Paused && e.State != outbox.StateDelivered, ", paused", "")
}

// orDash is a text that may be missing.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return shown(s)
}

func sequence(e outbox.Entry) string {
	if e.Seq == 0 {
		return "-"
	}
	return strconv.FormatInt(e.Seq, 10)
}
