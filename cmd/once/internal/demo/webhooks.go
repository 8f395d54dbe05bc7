package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/cmd/once/internal/killstorm"
	"github.com/oncelib/once/store/sqlplane"
)

var webhooksEntry = cli.Entry{
	Name: "demo webhooks", Brief: "kill a sender and a receiver of webhooks, then count the booked events",
	Help: `Starts a sender of webhooks with two nodes, and a receiver. The sender and the receiver have separate databases, and
each node and the receiver are separate processes. Clients request refunds from the sender. The sender commits an
event (package webhook) in the same transaction as each refund. The sender delivers the event to three endpoints of a
tenant: the receiver, an endpoint that never responds, and an endpoint that first fails and then responds with 410
(gone), so that the sender disables it.

The receiver verifies each request, and books the event through an inbox. The receiver is slow, and loses one of five
responses. In the middle of the demo the secret of the receiver is replaced, and later the old secret becomes invalid.
The receiver also gets forged requests: with a wrong secret, with the replaced secret, with a changed body or ID, with
an old timestamp, and without a signature. Meanwhile the demo kills each process (SIGKILL) again and again, and starts
it again.

At the end the demo compares the bookings of the receiver with the database of the sender. The exit code is 0 only if
all these statements are true: every event is booked exactly once; every forged request is rejected; no delivery for
the endpoint that never responds is lost; and no row of either database, and no output of a process, contains a secret
of an endpoint.

With --unsafe the receiver verifies no signatures and has no inbox. The database of the
receiver is always a new SQLite file.`,
	Make: func() cli.Runner { return new(webhooks) },
}

type webhooks struct {
	frame

	unsafe bool
}

func (c *webhooks) Flags(fs *pflag.FlagSet) {
	c.flags(fs, 120, fmt.Sprintf("the `NUMBER` of refunds that the clients make, at least %d", killstorm.LeastWebhooks), "when the demo kills processes", "`FILE` for the logs of the processes")
	fs.BoolVar(&c.unsafe, "unsafe", false, "let the receiver verify no signatures and use no inbox, to see the difference")
}

const (
	webhookNodes   = 2
	webhookClients = 8
	webhookKills   = 3 // of each process
)

func (c *webhooks) Run(ctx context.Context, m *cli.Env, _ []string) error {
	if err := c.check(killstorm.LeastWebhooks, 120); err != nil {
		return err
	}
	return c.run(m, "once demo webhooks --ops 24 --log storm.log, then read storm.log", func(src database, progress func(killstorm.Progress)) (outcome, error) {
		return c.storm(ctx, src, progress)
	})
}

func (c *webhooks) storm(ctx context.Context, src database, progress func(killstorm.Progress)) (o outcome, err error) {
	files, err := os.MkdirTemp("", "once-demo-webhooks-")
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(files)) }()
	books, err := openSource("sqlite:" + filepath.Join(files, "receiver.db"))
	if err != nil {
		return o, err
	}
	cfg := killstorm.WebhooksConfig{
		Orders: c.ops, Clients: webhookClients, Kills: webhookKills, Seed: c.seed, Session: session(), Progress: progress, SecretFile: filepath.Join(files, "secret"),
	}
	for _, d := range []struct {
		src    database
		tables []string
		see    *killstorm.Witness
	}{{src, killstorm.SenderTables(), &cfg.Sent}, {books, killstorm.HookReceiverTables(), &cfg.Books}} {
		if d.src.Dialect == sqlplane.SQLite { // in this mode readers need not wait for a writer
			d.tables = append(d.tables, "pragma journal_mode = wal")
		}
		if err := prepare(ctx, d.src, d.tables); err != nil {
			return o, err
		}
		if *d.see, err = witness(ctx, d.src, cfg.Session); err != nil {
			return o, err
		}
		defer d.see.DB.Close()
	}
	log, err := c.openLog()
	if err != nil {
		return o, err
	}
	defer log.Close()
	cfg.Log = log
	var s *killstorm.Webhooks
	cfg.Receiver = c.server(func() []string {
		args := []string{"demo", "hook", "--db", books.url, "--file", cfg.SecretFile}
		if c.unsafe {
			args = append(args, "--unsafe")
		}
		return args
	})
	for range webhookNodes {
		cfg.Senders = append(cfg.Senders, c.server(func() []string {
			return []string{"demo", "send", "--db", withSession(src, cfg.Session), "--ports", strings.Join(s.Ports(), ",")}
		}))
	}
	s = killstorm.NewWebhooks(cfg)
	r, err := s.Run(ctx)
	if err != nil {
		return o, err
	}
	if err := c.scan(s, &r, src, cfg.Session); err != nil {
		return o, err
	}
	return outcome{r, r.OK, func(w io.Writer) error { return c.print(w, r, src, cfg.Session) }}, nil
}

// scan searches the output of the demo for secrets.
func (c *webhooks) scan(s *killstorm.Webhooks, r *killstorm.WebhooksReport, src database, session string) error {
	var text bytes.Buffer
	err := errors.Join(c.print(&text, *r, src, session), json.NewEncoder(&text).Encode(r))
	s.Check(r, text.Bytes())
	return err
}

// print explains the kills and the bookings to a reader who does not know the demo.
func (c *webhooks) print(w io.Writer, r killstorm.WebhooksReport, src database, session string) error {
	title := "once demo webhooks"
	if c.unsafe {
		title += " --unsafe: the same sender, and a receiver that verifies no signatures and has no inbox"
	}
	fmt.Fprintf(w, "\n%s\n%d refunds by %d clients in %s, on %s and a second database, seed %d\n\n", title, r.Sent, webhookClients, r.Took.Round(100*time.Millisecond), src.Name, c.seed)
	f := newFigures(w)
	f.head("faults in this run")
	f.row(r.SenderKills, fmt.Sprintf("times one of %d nodes of the sender was killed (SIGKILL)", r.Nodes))
	f.row(r.ReceiverKills, "times the receiver was killed")
	f.row(r.Hung, "requests to an endpoint that never answers")
	f.row(r.Failed, "requests to an endpoint that fails")
	f.head("the receiver")
	f.row(r.Deliveries, fmt.Sprintf("deliveries of %d events have reached the receiver", r.Sent))
	f.row(r.DuplicatesDiscarded, "of the deliveries were discarded, because their events were booked before")
	f.row(r.Rejected, "forged requests rejected")
	f.row(r.DisabledEndpoints, "endpoint was disabled, and the receiver was notified")
	f.row(r.Applied, fmt.Sprintf("bookings of %d refunds", r.Sent))
	f.head("time from the commit of a refund to its booking, while other endpoints hang and fail")
	f.row(int(r.HealthyP99), "ms at the 99th percentile")
	f.row(int(r.StormP99), "ms at the 99th percentile, while processes were killed")
	f.head("search for secrets of endpoints")
	f.row(r.Scanned, "bytes searched, in database rows and in the output of the processes")
	if err := f.verdict(r.OK, "every event is booked exactly once, and no secret was found.", r.Reasons); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nNext: the three endpoints\n  %s webhook endpoints --tenant %s --db %s\n", self(), session, src.Paste)
	return err
}
