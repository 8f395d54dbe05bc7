package webhook

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/operate"
)

var deliveriesEntry = cli.Entry{
	Name: "webhook deliveries", Args: "ENDPOINT", Brief: "list the finished and the waiting deliveries of an endpoint",
	Help: `Lists the events for an endpoint, the latest first. An event waits for the time of its next attempt, is
stopped because all attempts have failed, or is delivered. Events that are older than the retention of the service
(webhook.Config.Retain) are deleted.`,
	Make: func() cli.Runner { return new(deliveries) },
}

type deliveries struct {
	db     string
	output cli.Form
	filter operate.DeliveryFilter
}

func (c *deliveries) Flags(fs *pflag.FlagSet) {
	cli.DBFlag(fs, &c.db)
	fs.StringVar(&c.filter.State, "state", "", "list only deliveries in this `STATE`: waiting, stopped or delivered")
	cli.WindowFlags(fs, &c.filter.Window)
	c.output.Flag(fs)
}

func (c *deliveries) Run(ctx context.Context, m *cli.Env, args []string) error {
	if len(args) == 0 || args[0] == "" {
		return cli.Usage("the ENDPOINT is missing", "once webhook deliveries ENDPOINT --db URL; the command \"once webhook endpoints\" lists the endpoints")
	}
	if err := cli.CheckLimit(c.filter.Limit); err != nil {
		return err
	}
	switch c.filter.State {
	case "", "waiting", "stopped", "delivered":
	default:
		return cli.Usage(fmt.Sprintf("the state %q does not exist", c.filter.State), "--state waiting, stopped or delivered")
	}
	db, err := m.Open(ctx, c.db, operate.Config{})
	if err != nil {
		return err
	}
	defer db.Close()
	p, err := db.Hooks.Deliveries(ctx, args[0], c.filter)
	if err != nil {
		return refused(db, "read", err)
	}
	return cli.ShowPage(m, c.output, p, "deliveries that match the flags", printDeliveries)
}

func printDeliveries(w io.Writer, list []operate.Delivery) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "EVENT\tTYPE\tSTATE\tSENT AT\tDUE AT\tFAILURES\tLAST ANSWER\n")
	for _, d := range list {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d\t%s\n", d.Event, d.Type, d.State, words.Time(d.CreatedAt), timeOrDash(d.DueAt), d.Failures, lastAnswer(d.Last))
	}
	return t.Flush()
}

// lastAnswer returns the status of the answer to an attempt, or the reason why no answer came.
func lastAnswer(a *operate.DeliveryAttempt) string {
	switch {
	case a == nil:
		return words.OrDash("")
	case a.Status == 0:
		return a.Error
	}
	return strconv.Itoa(a.Status)
}

var showEntry = cli.Entry{
	Quick: true, Name: "webhook show", Args: "ENDPOINT EVENT", Brief: "print the attempts to deliver an event to an endpoint",
	Help: `Prints the delivery of an event to an endpoint, the operation that has sent the event, and each attempt: how long it
took, and its HTTP status or the reason why no response arrived. With --payload the command also prints the data of the
event and the beginning of each response. If the service encrypts the data of events, --payload needs --key-file too.`,
	Make: func() cli.Runner { return new(show) },
}

type show struct {
	flags cli.MessageFlags
}

func (c *show) Flags(fs *pflag.FlagSet) { c.flags.Flags(fs) }

// shown is what show prints as JSON.
type shown struct {
	operate.Delivery

	Payload  []byte                    `json:"payload,omitempty"` // the data of the event; base64
	Attempts []operate.DeliveryAttempt `json:"attempts"`
}

func (c *show) Run(ctx context.Context, m *cli.Env, args []string) error {
	if len(args) < 2 {
		return cli.Usage("the endpoint or the event is missing", "once webhook show ENDPOINT EVENT --db URL, as once webhook deliveries names them")
	}
	encrypter, err := c.flags.Key.Encrypter()
	if err != nil {
		return err
	}
	db, err := m.Open(ctx, c.flags.DB, operate.Config{Encrypter: encrypter})
	if err != nil {
		return err
	}
	defer db.Close()
	d, attempts, err := db.Hooks.Delivery(ctx, args[0], args[1])
	if err != nil {
		return refused(db, "read", err)
	}
	var payload []byte
	if c.flags.Payload {
		if payload, err = db.Hooks.Data(ctx, args[0], args[1]); err != nil {
			return refused(db, "read", err)
		}
	} else {
		for i := range attempts {
			attempts[i].Answer = ""
		}
	}
	if c.flags.Output != cli.Table {
		return cli.WriteJSON(m.Stdout, c.flags.Output, shown{d, payload, attempts})
	}
	return printDelivery(m.Stdout, shown{d, payload, attempts})
}

func printDelivery(w io.Writer, d shown) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "event\t%s\ntype\t%s\nstate\t%s\nsent at\t%s\n", d.Event, d.Type, d.State, words.Time(d.CreatedAt))
	if d.DueAt != nil {
		fmt.Fprintf(t, "due at\t%s\n", words.Time(*d.DueAt))
	}
	if op := d.Operation; op != nil {
		fmt.Fprintf(t, "operation\t%s, scope %s\n", op.KeyHash, words.Shown(op.Scope))
	}
	if d.Payload != nil {
		fmt.Fprintf(t, "payload\t%s\n", words.Shown(string(d.Payload)))
	}
	fmt.Fprint(t, "\nAT\tANSWER\tTOOK\tBYTES\tCAUSE\n")
	for _, a := range d.Attempts {
		fmt.Fprintf(t, "%s\t%s\t%.3f s\t%d\t%s\n", words.Time(a.At), lastAnswer(&a), a.Seconds, a.Bytes, words.OrDash(a.Cause))
		if a.Answer != "" {
			fmt.Fprintf(t, "\t%s\n", words.Shown(a.Answer))
		}
	}
	return t.Flush()
}
