package webhook

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/webhook"
)

// change is a command that acts on an endpoint.
type change struct {
	db  string
	by  operate.By
	yes bool

	args  int // the number of required arguments
	try   string
	would string // the effect on an endpoint, in words; did is the same for a change that was made
	did   string
	do    func(ctx context.Context, db *cli.DB, by operate.By, args []string) (detail string, err error)
	count func(ctx context.Context, db *cli.DB, args []string) (detail string, err error) // how many endpoints or deliveries it concerns; nil means one
	flags func(fs *pflag.FlagSet)
}

func (c *change) Flags(fs *pflag.FlagSet) {
	cli.DBFlag(fs, &c.db)
	if c.flags != nil {
		c.flags(fs)
	}
	cli.ByFlags(fs, &c.by)
	cli.YesFlag(fs, &c.yes)
}

func (c *change) Run(ctx context.Context, m *cli.Env, args []string) error {
	if len(args) < c.args || args[0] == "" {
		return cli.Usage(words.Either(c.args > 1, "the ENDPOINT or the EVENT is missing", "the ENDPOINT is missing"), c.try)
	}
	if err := cli.CheckBy(c.by, c.try); err != nil {
		return err
	}
	db, err := m.Open(ctx, c.db, operate.Config{})
	if err != nil {
		return err
	}
	defer db.Close()
	e, err := db.Hooks.Endpoint(ctx, args[0])
	if err != nil {
		return refused(db, "read", err)
	}
	name := fmt.Sprintf("%s of %s (%s)", e.ID, words.Shown(e.Tenant), words.Shown(e.URL))
	if !c.yes {
		detail := ""
		if c.count != nil {
			if detail, err = c.count(ctx, db, args); err != nil {
				return refused(db, "read", err)
			}
		}
		fmt.Fprintf(m.Stdout, "would %s %s%s\n", c.would, name, detail)
		return m.Preview("--yes")
	}
	detail, err := c.do(ctx, db, c.by, args)
	if err != nil {
		return refused(db, "change", err)
	}
	fmt.Fprintf(m.Stdout, "%s %s%s\n", c.did, name, detail)
	return nil
}

const audited = `

Without --yes nothing is changed. The commit of the change also writes the operator, the time and the reason into the
audit.`

var resendEntry = cli.Entry{
	Quick: true, Name: "webhook resend", Args: "ENDPOINT EVENT", Brief: "deliver an event to an endpoint again",
	Help: `Delivers an event to an endpoint again, at once, even if the event was already delivered. The new delivery has the same
webhook-id as before, so a receiver that has applied the event does not apply it again.` + audited,
	Make: func() cli.Runner {
		return &change{args: 2, try: "once webhook resend ENDPOINT EVENT --reason WHY --db URL", would: "send again to", did: "sent again to",
			do: func(ctx context.Context, db *cli.DB, by operate.By, args []string) (string, error) {
				return "", db.Hooks.Resend(ctx, by, args[0], args[1])
			}}
	},
}

var disableEntry = cli.Entry{
	Quick: true, Name: "webhook disable", Args: "ENDPOINT", Brief: "stop sending to an endpoint",
	Help: `Stops sending events to an endpoint. Events that already wait for the endpoint stay, and are delivered when you enable
the endpoint again. Events that the service sends while the endpoint is disabled are not stored for this endpoint: to
send them later, run "once webhook recover --missed".` + audited,
	Make: func() cli.Runner {
		return &change{args: 1, try: "once webhook disable ENDPOINT --reason WHY --db URL", would: "disable", did: "disabled",
			do: func(ctx context.Context, db *cli.DB, by operate.By, args []string) (string, error) {
				return "", db.Hooks.Disable(ctx, by, args[0])
			}}
	},
}

var enableEntry = cli.Entry{
	Quick: true, Name: "webhook enable", Args: "ENDPOINT", Brief: "enable a disabled endpoint",
	Help: `Enables an endpoint that was disabled by an operator, by a response with the status 410 (gone), or by too
many failures. The events that wait for the endpoint are delivered first.` + audited,
	Make: func() cli.Runner {
		return &change{args: 1, try: "once webhook enable ENDPOINT --reason WHY --db URL", would: "enable", did: "enabled",
			do: func(ctx context.Context, db *cli.DB, by operate.By, args []string) (string, error) {
				return "", db.Hooks.Enable(ctx, by, args[0])
			}}
	},
}

var recoverEntry = cli.Entry{
	Name: "webhook recover", Args: "ENDPOINT", Brief: "send again the events that an endpoint did not receive",
	Help: `Sends an event of a period again if all attempts to deliver the event have failed. The schedule of attempts then starts
from its beginning. With --missed the command sends other events of the period: the events that were never sent to the
endpoint, because the endpoint was disabled or its filter did not match the events.

The command works in small transactions. If the command is killed, it has sent only a part of the events: run the same
command again to send the other events.` + audited,
	Make: func() cli.Runner { return newRecover() },
}

func newRecover() *change {
	const try = "once webhook recover ENDPOINT --since 24h --reason WHY --db URL"
	var between cli.Between
	var rate float64
	var missed bool
	period := func(ctx context.Context, db *cli.DB) (p webhook.Period, err error) {
		p.Rate = rate
		if _, err = between.Read(ctx, db, &p.Since, &p.Until); err == nil && p.Since.IsZero() {
			err = cli.Usage("--since is missing", try)
		}
		return p, err
	}
	return &change{
		args: 1, try: try, would: "send again to", did: "sent again to",
		flags: func(fs *pflag.FlagSet) {
			between.Flags(fs)
			fs.Float64Var(&rate, "rate", 0, "send at most this `NUMBER` of events a second (default: all at once)")
			fs.BoolVar(&missed, "missed", false, "send the events that were never sent to this endpoint")
		},
		count: func(ctx context.Context, db *cli.DB, args []string) (string, error) {
			p, err := period(ctx, db)
			if err != nil {
				return "", err
			}
			n, more, err := db.Hooks.Preview(ctx, args[0], p, missed)
			return ": " + words.Count(int(n), "event") + words.Either(more, ", or more", ""), err
		},
		do: func(ctx context.Context, db *cli.DB, by operate.By, args []string) (string, error) {
			p, err := period(ctx, db)
			if err != nil {
				return "", err
			}
			send := db.Hooks.Recover
			if missed {
				send = db.Hooks.Replay
			}
			n, err := send(ctx, by, args[0], p)
			return ": " + words.Count(int(n), "event"), err
		},
	}
}
