package outbox

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/outbox"
)

var listEntry = cli.Entry{
	Quick: true, Name: "outbox list", Brief: "list messages that wait for delivery",
	Help: `Lists the messages of the outbox that are not delivered, the oldest first. The command also lists the topics and keys
that are paused, and the topics whose delivery waits for another reason: the destination is down or does not respond, a
rate limit applies, or messages fail. For each waiting topic the command prints the time at which the wait began, and
the error. Each relay writes the reason of each wait into the database every five seconds. The command does not print
payloads and headers.

The states of a message:

  waiting   a relay will deliver the message
  failing   a delivery has failed, and the relay tries again
  stopped   deliveries have failed, and no relay tries again until an operator resumes or skips the message
  blocked   an earlier message of the same key is failing or stopped

With --state delivered the command lists delivered messages, if the relay keeps them.

If there are more messages than --limit, the command prints the command line for the next page to standard error; in
JSON, "next" is the value for --after.`,
	Make: func() cli.Runner { return new(list) },
}

type list struct {
	db, state string
	output    cli.Form
	filter    operate.MessageFilter
}

// outboxStates are the states of a message.
var outboxStates = []outbox.State{
	outbox.StateWaiting, outbox.StateFailing, outbox.StateStopped, outbox.StateBlocked, outbox.StateDelivered,
}

func (c *list) Flags(fs *pflag.FlagSet) {
	cli.DBFlag(fs, &c.db)
	fs.StringVar(&c.filter.Topic, "topic", "", "list only messages of this `TOPIC`")
	fs.StringVar(&c.filter.Key, "key", "", "list only messages of this `KEY` of the topic")
	fs.StringVar(&c.state, "state", "", "list only messages in this `STATE`: waiting, failing, stopped, blocked or delivered")
	cli.WindowFlags(fs, &c.filter.Window)
	c.output.Flag(fs)
}

func (c *list) Run(ctx context.Context, m *cli.Env, _ []string) error {
	if err := cli.CheckLimit(c.filter.Limit); err != nil {
		return err
	}
	if c.filter.State = outbox.State(c.state); c.state != "" && !slices.Contains(outboxStates, c.filter.State) {
		return cli.Usage(fmt.Sprintf("the state %q does not exist", c.state), "--state waiting, failing, stopped, blocked, or delivered")
	}
	if c.filter.Key != "" && c.filter.Topic == "" {
		return cli.Usage("--key needs --topic: the same key may exist in several topics", "once outbox list --topic TOPIC --key KEY --db URL")
	}
	db, err := m.Open(ctx, c.db, operate.Config{})
	if err != nil {
		return err
	}
	defer db.Close()
	page, err := c.page(ctx, db)
	if err != nil {
		return refused(db, "read", err)
	}
	if c.output != cli.Table {
		return cli.WriteList(m.Stdout, c.output, page, page.Items)
	}
	if len(page.Items)+len(page.Paused)+len(page.Topics) == 0 {
		return m.Empty("messages that match the flags")
	}
	if err := page.print(m.Stdout); err != nil {
		return err
	}
	if err := m.More(page.Next); err != nil {
		return err
	}
	if i := slices.IndexFunc(page.Items, func(e operate.Message) bool { return e.State == outbox.StateStopped }); i >= 0 {
		fmt.Fprintf(m.Stderr, "A message is stopped, and an operator must resume or skip the message. Try: once outbox show %s --db %s\n", page.Items[i].ID, db.Paste)
	}
	return nil
}

// page is a list for scripts. Its JSON form is a contract with them.
type page struct {
	Items  []operate.Message   `json:"items"`
	Paused []operate.Pause     `json:"paused"`
	Topics []operate.TopicWait `json:"topics"` // why messages of topics wait, except pauses
	Next   string              `json:"next,omitempty"`
}

func (c *list) page(ctx context.Context, db *cli.DB) (p page, err error) {
	list, err := db.Outbox.List(ctx, c.filter)
	if err != nil {
		return p, err
	}
	p.Items, p.Next = list.Items, list.Next
	if p.Paused, err = db.Outbox.Pauses(ctx); err != nil {
		return p, err
	}
	p.Topics, err = db.Outbox.Waits(ctx, c.filter.Topic)
	return p, err
}

func (p page) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "ID\tTOPIC\tKEY\tSEQ\tTYPE\tSTATE\tFAILED\tBYTES\tCREATED\n")
	for _, e := range p.Items {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%s\n", e.ID, words.Shown(e.Topic), words.OrDash(e.Key), sequence(e), words.Shown(e.Type),
			standing(e), e.Attempts, e.PayloadBytes, words.Time(e.CreatedAt))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(p.Paused) > 0 {
		fmt.Fprint(t, "\nPAUSED TOPIC\tKEY\tSINCE\tREASON\n")
	}
	for _, e := range p.Paused {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", words.Shown(e.Topic), words.OrDash(e.Key), words.Time(e.Since), words.Shown(e.Reason))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(p.Topics) > 0 {
		fmt.Fprint(t, "\nTOPIC\tWAITS FOR\tSINCE\tOLDEST\tREASON\n")
	}
	for _, e := range p.Topics {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", words.Shown(e.Topic), e, words.Time(e.Since), words.Time(e.Oldest), words.OrDash(e.Reason))
	}
	return t.Flush()
}

// standing returns the state of a message in one or two words.
func standing(e operate.Message) string {
	return string(e.State) + words.Either(e.Paused && e.State != outbox.StateDelivered, ", paused", "")
}

func sequence(e operate.Message) string {
	if e.Seq == 0 {
		return "-"
	}
	return strconv.FormatInt(e.Seq, 10)
}
