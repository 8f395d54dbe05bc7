package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mrand "math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/cmd/once/internal/killstorm"
	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/store/sqlstore"
)

var demoEventsEntry = cli.Entry{
	Name: "demo events", Brief: "kill relays, a broker and a receiver under fire, then count the events",
	Help: `Starts the payments service with an outbox, two relays (once relay), a NATS server with
JetStream and a receiver of the events with an inbox, each as a process of its own. While
clients make refunds and void some of them, each process is killed (SIGKILL) again and again
and started again on the same files.

A consumer reads the stream of the broker from the beginning to the end. Then its events
are compared with the charges and refunds in the database: every event that was committed
must have arrived, none of something that was not, and those of each charge in their order.
Repeated deliveries are counted: the stream has the shortest duplicate window that NATS
permits, so that they can be seen.

The receiver gets its events as from a bad network: some twice, some before the one in front
of them, and an old one again in the end. One event it cannot book: this becomes a dead
letter, which blocks its charge and nothing else. Then the receiver is repaired, and the dead
letter is redriven. In the end its bookings in the database are compared with the charges and
refunds: every event must be booked exactly once, in the order of its charge.

The exit code is 0 only if all of this holds. With --log, inbox.csv has a line for each
booking ("ok") and for each delivery that was discarded, because its event was booked
("replayed"); receiver.log is what the receiver has logged, as JSON.`,
	Make: func() cli.Runner { return new(demoEvents) },
}

type demoEvents struct {
	ops  int
	db   string
	seed uint64
	log  string
	json bool
}

func (c *demoEvents) Flags(fs *pflag.FlagSet) {
	fs.IntVar(&c.ops, "ops", 500, "how `MANY` refunds")
	fs.StringVar(&c.db, "db", "", cli.DBUsage+" (default: a new SQLite file)")
	cli.OnCommandLine(fs, "db")
	fs.Uint64Var(&c.seed, "seed", 0, "`NUMBER` that decides when something is killed (default: a new one)")
	fs.StringVar(&c.log, "log", "", "`FOLDER` for inbox.csv and receiver.log")
	fs.BoolVar(&c.json, "json", false, "print the result as one JSON object")
}

const (
	eventRelays  = 2
	eventClients = 8
	eventKills   = 3       // of each process
	relayTTL     = "500ms" // after which the other relay takes over
)

func (c *demoEvents) Run(ctx context.Context, m *cli.Env, _ []string) (err error) {
	if c.ops < 1 || c.ops > mostOps {
		return cli.Usage(fmt.Sprintf("--ops %d makes no storm", c.ops), "--ops 500")
	}
	if c.seed == 0 {
		c.seed = uint64(mrand.Uint32())
	}
	src, err := demoSource(c.db)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil && !errors.Is(err, cli.ErrSaid) { // after a storm that was lost it is evidence
			src.discard()
		}
	}()
	cfg := killstorm.EventsConfig{
		Orders: c.ops, Clients: eventClients, Kills: eventKills + c.ops/1000, Seed: c.seed, Tenant: "demo-" + strings.ToLower(rand.Text())[:8],
	}
	if cfg.Witness, err = witness(ctx, src, cfg.Tenant); err != nil {
		return err
	}
	defer cfg.Witness.DB.Close()
	files, err := os.MkdirTemp("", "once-demo-nats-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(files)) }()
	letters, err := cli.OpenDatabase(ctx, src.url, true)
	if err != nil {
		return err
	}
	defer letters.Close()
	cfg.Letters = func(ctx context.Context) (*deadletter.Letters, error) {
		s, err := sqlstore.New(ctx, letters.DB, sqlstore.Config{})
		if err != nil {
			return nil, letters.Failed("open", err)
		}
		return deadletter.New(s, deadletter.Config{}), nil
	}
	if err := c.processes(&cfg, src, files); err != nil {
		return err
	}
	if c.log != "" {
		if cfg.Log, err = killstorm.OpenEventsLog(c.log); err != nil {
			return fmt.Errorf("%w. Try: --log with a folder that can be written", err)
		}
	}
	meter := newMeter(m.Stderr)
	cfg.Progress = meter.show
	r, err := killstorm.RunEvents(ctx, cfg)
	meter.end()
	if end := cfg.Log.Close(); err == nil {
		err = end
	}
	if err != nil {
		return fmt.Errorf("%w. Try: once demo events --ops 50 --log storm, then read storm/receiver.log", err)
	}
	if c.json {
		if c.db == "" && r.OK {
			err = os.RemoveAll(filepath.Dir(src.Path)) // scripts do not want to look into it
		}
		err = errors.Join(err, json.NewEncoder(m.Stdout).Encode(r))
	} else {
		err = c.print(m.Stdout, r, src)
	}
	if err == nil && !r.OK {
		return cli.ErrSaid
	}
	return err
}

// processes are this program several times more.
func (c *demoEvents) processes(cfg *killstorm.EventsConfig, src demoDB, files string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	server := func(args ...string) *killstorm.Server {
		return &killstorm.Server{Command: func(address string) *exec.Cmd {
			return exec.Command(self, append(args, "--listen", address)...) //nolint:noctx // the storm ends it
		}}
	}
	cfg.Service = server("demo", "serve", "--events", "--metrics", "", "--db", src.url)
	cfg.Broker = server("demo", "nats", "--dir", files)
	cfg.Broker.Ready = func(ctx context.Context, address string) bool {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address)
		return err == nil && conn.Close() == nil
	}
	var repaired atomic.Bool
	cfg.Fix = func() { repaired.Store(true) }
	cfg.Receiver = &killstorm.Server{
		Command: func(string) *exec.Cmd {
			args := []string{"demo", "receive", "--db", src.url, "--from", "nats://" + cfg.Broker.Address(), "--tenant", cfg.Tenant}
			if !repaired.Load() {
				args = append(args, "--defect", strconv.FormatInt(cfg.Defect(), 10))
			}
			return exec.Command(self, args...) //nolint:noctx // likewise
		},
		Ready: func(context.Context, string) bool { return true }, // it takes no requests
	}
	for range eventRelays {
		cfg.Relays = append(cfg.Relays, &killstorm.Server{
			Command: func(string) *exec.Cmd {
				return exec.Command(self, "relay", "--db", src.url, "--to", "nats://"+cfg.Broker.Address(), "--ttl", relayTTL) //nolint:noctx // likewise
			},
			Ready: func(context.Context, string) bool { return true }, // it takes no requests
		})
	}
	return nil
}

// print tells a stranger what was killed and what has arrived.
func (c *demoEvents) print(w io.Writer, r killstorm.EventsReport, src demoDB) error {
	fmt.Fprintf(w, "\nonce demo events\n%d refunds by %d clients in %s, on %s, seed %d\n\n",
		r.Orders, r.Clients, r.Took.Round(100*time.Millisecond), src.Name, c.seed)
	t := tabwriter.NewWriter(w, 0, 0, 1, ' ', tabwriter.AlignRight)
	row := func(n int, what string) { fmt.Fprintf(t, "    %s\t  %s\n", number(n), what) }
	head := func(s string) { _ = t.Flush(); fmt.Fprintf(w, "  %s\n", s) }
	head("thrown at it")
	row(r.RelayKills, fmt.Sprintf("times one of %d relays was killed (SIGKILL)", r.Relays))
	row(r.BrokerKills, "times NATS was killed")
	row(r.ServiceKills, "times the service was killed, under "+cli.Count(r.Requests, "request"))
	row(r.ReceiverKills, "times the receiver was killed")
	row(r.Repeated, "deliveries to the receiver were made twice on purpose")
	row(r.Reordered, "came before the one in front of them, on purpose")
	head("committed with the charges and refunds")
	row(r.Events, fmt.Sprintf("events of %d keys", r.Keys))
	head("delivered")
	row(r.Deliveries, "messages")
	row(r.DuplicateDeliveries, "of them again: a consumer knows them by their number")
	row(r.Lost, "lost")
	row(r.OutOfOrder, "out of the order of their key")
	row(r.Phantoms, "of something that was not committed")
	head("booked by the receiver")
	row(r.Applied, "events, once each and in the order of their key")
	row(r.DuplicatesDiscarded, "deliveries discarded, because the event was booked before")
	row(r.Parked, "events parked until the one in front of them came")
	row(r.StaleIgnored, "old versions ignored")
	row(r.DeadLettered, "dead letters: the receiver could not book them, and "+cli.Count(r.Behind, "event")+" of their key waited")
	row(r.Redriven, "of them applied after the repair")
	if err := t.Flush(); err != nil {
		return err
	}
	if !r.OK {
		fmt.Fprintf(w, "\nNOT OK\n  %s\n", strings.Join(r.Reasons, "\n  "))
	} else {
		fmt.Fprintf(w, "\nOK: every event that was committed has arrived, and is booked once, in the order of its key.\n")
	}
	_, err := fmt.Fprintf(w, "\nNext: the outbox when all is delivered, and what is known about the dead letter\n"+
		"  %[1]s outbox list --db %[2]s\n  %[1]s deadletter list --letters --state applied --db %[2]s\n", self(), src.Paste)
	return err
}
