package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/cmd/once/internal/killstorm"
	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/store/sqlstore"
)

var eventsEntry = cli.Entry{
	Name: "demo events", Brief: "kill relays, a broker and a receiver under load, then count the events",
	Help: `Starts five separate processes: the payments service with an outbox, two relays ("once relay"), a NATS server
with JetStream, and a receiver of the events with an inbox. Clients make refunds and void (cancel) some of these
refunds. Meanwhile the demo kills each process (SIGKILL) again and again, and starts it again on the same files.

At the end a consumer reads the stream of the broker from the beginning to the end. The demo compares the events in the
stream with the charges and refunds in the database. Every committed event must have arrived. The stream must contain no
event of a transaction that was rolled back. The events of each charge must have the right order. Repeated deliveries
are allowed, and the demo counts them. In its duplicate window, NATS discards repetitions, so the stream has the
shortest duplicate window that NATS permits.

The demo delivers events to the receiver as a bad network does: some events twice, some before the preceding event, and
at the end an old event again. On purpose, the receiver cannot book one of the events. The event that the receiver
cannot book becomes a dead letter, which blocks only the later events of its charge. Then the demo repairs the receiver
and redrives the dead letter (delivers it again). At the end the demo compares the bookings of the receiver with the
charges and refunds: every event must be booked exactly once, and the events of each charge in the right order.

The exit code is 0 only if the demo finds no difference in the stream and no difference in the bookings. With --log the
demo writes two files. inbox.csv has a line for each booking ("ok"), and for each delivery that the inbox discarded
because the event was already booked ("replayed"). receiver.log is the log of the receiver, as JSON.`,
	Make: func() cli.Runner { return new(events) },
}

type events struct{ frame }

// connect connects to the broker; nil in a build without NATS.
var connect func(ctx context.Context, address string) (killstorm.Streams, error)

// RegisterStreams gives this build the broker of once demo events, and the commands that are its processes: once demo nats is the server, and once demo receive the receiver.
func RegisterStreams(c func(ctx context.Context, address string) (killstorm.Streams, error)) {
	connect = c
}

func (c *events) Flags(fs *pflag.FlagSet) {
	c.flags(fs, 500, "the `NUMBER` of refunds that the clients make", "when the demo kills processes", "`FOLDER` for inbox.csv and receiver.log")
}

const (
	eventRelays  = 2
	eventClients = 8
	eventKills   = 3       // of each process
	relayTTL     = "500ms" // after this time, the other relay takes over the messages of a killed one
)

func (c *events) Run(ctx context.Context, m *cli.Env, _ []string) error {
	if err := c.check(1, 500); err != nil {
		return err
	}
	if connect == nil {
		return cli.Usage("this build of the command once has no NATS server", cli.FullBuild+" demo events")
	}
	return c.run(m, "once demo events --ops 50 --log storm, then read storm/receiver.log", func(src database, progress func(killstorm.Progress)) (outcome, error) {
		return c.storm(ctx, src, progress)
	})
}

func (c *events) storm(ctx context.Context, src database, progress func(killstorm.Progress)) (o outcome, err error) {
	cfg := killstorm.EventsConfig{
		Orders: c.ops, Clients: eventClients, Kills: eventKills + c.ops/1000, Seed: c.seed, Tenant: session(), Progress: progress, Connect: connect,
	}
	if cfg.Witness, err = witness(ctx, src, cfg.Tenant); err != nil {
		return o, err
	}
	defer cfg.Witness.DB.Close()
	files, err := os.MkdirTemp("", "once-demo-nats-")
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(files)) }()
	letters, err := cli.OpenDatabase(ctx, src.url, true)
	if err != nil {
		return o, err
	}
	defer letters.Close()
	cfg.Letters = func(ctx context.Context) (*deadletter.Letters, error) {
		s, err := sqlstore.New(ctx, letters.DB, sqlstore.Config{})
		if err != nil {
			return nil, letters.Failed("open", err)
		}
		return deadletter.New(s, deadletter.Config{}), nil
	}
	c.processes(&cfg, src, files)
	if c.log != "" {
		if cfg.Log, err = killstorm.OpenEventsLog(c.log); err != nil {
			return o, fmt.Errorf("%w. Try: use --log with a writable folder", err)
		}
	}
	r, err := killstorm.RunEvents(ctx, cfg)
	if end := cfg.Log.Close(); err == nil {
		err = end
	}
	return outcome{r, r.OK, func(w io.Writer) error { return c.print(w, r, src) }}, err
}

// processes are further processes of this program.
func (c *events) processes(cfg *killstorm.EventsConfig, src database, files string) {
	cfg.Service = c.server(func() []string { return []string{"demo", "serve", "--events", "--metrics", "", "--db", src.url} })
	cfg.Broker = c.server(func() []string { return []string{"demo", "nats", "--dir", files} })
	cfg.Broker.Ready = func(ctx context.Context, address string) bool {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address)
		return err == nil && conn.Close() == nil
	}
	var repaired atomic.Bool
	cfg.Fix = func() { repaired.Store(true) }
	cfg.Receiver = c.worker(func() []string {
		args := []string{"demo", "receive", "--db", src.url, "--from", "nats://" + cfg.Broker.Address(), "--tenant", cfg.Tenant}
		if !repaired.Load() {
			args = append(args, "--defect", strconv.FormatInt(cfg.Defect(), 10))
		}
		return args
	})
	for range eventRelays {
		cfg.Relays = append(cfg.Relays, c.worker(func() []string {
			return []string{"relay", "--db", src.url, "--to", "nats://" + cfg.Broker.Address(), "--ttl", relayTTL}
		}))
	}
}

// print explains the kills and the arrived events to a reader who does not know the demo.
func (c *events) print(w io.Writer, r killstorm.EventsReport, src database) error {
	fmt.Fprintf(w, "\nonce demo events\n%d refunds by %d clients in %s, on %s, seed %d\n\n",
		r.Orders, r.Clients, r.Took.Round(100*time.Millisecond), src.Name, c.seed)
	f := newFigures(w)
	f.head("faults in this run")
	f.row(r.RelayKills, fmt.Sprintf("times one of %d relays was killed (SIGKILL)", r.Relays))
	f.row(r.BrokerKills, "times NATS was killed")
	f.row(r.ServiceKills, "times the service was killed, while clients sent "+words.Count(r.Requests, "request"))
	f.row(r.ReceiverKills, "times the receiver was killed")
	f.row(r.Repeated, "deliveries to the receiver were made twice on purpose")
	f.row(r.Reordered, "deliveries were made out of order on purpose")
	f.head("events committed together with the charges and refunds")
	f.row(r.Events, fmt.Sprintf("events of %d keys", r.Keys))
	f.head("delivered")
	f.row(r.Deliveries, "messages delivered")
	f.row(r.DuplicateDeliveries, "of the messages were repetitions; a consumer recognises a repetition by its number")
	f.row(r.Lost, "events lost")
	f.row(r.OutOfOrder, "events in the wrong order within their key")
	f.row(r.Phantoms, "events of transactions that were not committed")
	f.head("booked by the receiver")
	f.row(r.Applied, "events booked exactly once, in the right order within their key")
	f.row(r.DuplicatesDiscarded, "deliveries discarded, because their events were booked before")
	f.row(r.Parked, "events parked until the preceding event arrived")
	f.row(r.StaleIgnored, "old versions of events were ignored")
	f.row(r.DeadLettered, "dead letters: the receiver could not book the events; "+words.Count(r.Behind, "later event")+" of the same keys waited")
	f.row(r.Redriven, "dead letters were applied after the repair of the receiver")
	if err := f.verdict(r.OK, "every committed event has arrived, and is booked exactly once, in the right order within its key.", r.Reasons); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nNext: the outbox after all deliveries, and the dead letter\n"+
		"  %[1]s outbox list --db %[2]s\n  %[1]s deadletter list --letters --state applied --db %[2]s\n", self(), src.Paste)
	return err
}
