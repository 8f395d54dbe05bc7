package demo

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/attemptlog"
	"github.com/oncelib/once/broker/httpbroker"
	"github.com/oncelib/once/cmd/once/internal/cli"
	pages "github.com/oncelib/once/cmd/once/internal/console"
	"github.com/oncelib/once/cmd/once/internal/payments"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/outbox"
)

// Dev is once dev.
var Dev = cli.Alone(devEntry, cli.GroupTry)

var devEntry = cli.Entry{
	Name: "dev", Brief: "a running example: a service with an outbox, an inbox and the console",
	Help: `Starts the payments service of the demo, a relay that delivers the events of the service, a receiver that books the
events through an inbox, and the console. The service, the relay, the receiver and the console run in one process, on a
new SQLite file. The command also sends requests: charges and refunds, retries that get the stored response, and keys
that are reused for another amount. On purpose the receiver cannot book some refunds: the events of these refunds become
dead letters, and later events of the same charges wait.

The printed address of the console contains a token. The audit records your changes on the pages under your name. When
you interrupt the command, all of its parts end, and the command deletes its files.`,
	Make: func() cli.Runner { return new(dev) },
}

type dev struct{ listen, console string }

func (c *dev) Flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.listen, "listen", "127.0.0.1:8080", "`ADDRESS` at which the service listens; it must be a loopback address")
	fs.StringVar(&c.console, "console", "127.0.0.1:8480", "`ADDRESS` at which the console listens; it must be a loopback address")
}

// devTenant is the customer of the service who sends the requests.
const devTenant = "acme"

func (c *dev) Run(ctx context.Context, m *cli.Env, _ []string) (err error) {
	who := cli.Operator()
	if who == "" {
		who = "dev"
	}
	service, err := c.open(ctx, "listen", c.listen)
	if err != nil {
		return err
	}
	defer service.Close() // a second Close does no harm
	front, err := c.open(ctx, "console", c.console)
	if err != nil {
		return err
	}
	defer front.Close()
	dir, remove, err := ownFolder("once-dev-")
	if err != nil {
		return err
	}
	defer func() { _ = remove() }() // if it fails, the folder stays and does no harm
	url := "sqlite:" + filepath.Join(dir, "payments.db")
	db, err := payments.OpenEvents(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	own, err := m.Open(ctx, url, operate.Config{})
	if err != nil {
		return err
	}
	defer own.Close()
	s, ok := own.Store.(operate.DB[*sql.Tx])
	if !ok {
		return fmt.Errorf("the store %T has no SQLite transactions", own.Store)
	}
	attempts := attemptlog.New(s, attemptlog.Config{Interval: time.Second})
	defer func() { err = errors.Join(err, attempts.Close(context.WithoutCancel(ctx))) }()

	log := slog.New(slog.NewTextHandler(m.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))                                    // the console shows the rest
	receive, look := db.Receiver(payments.ReceiverConfig{Tenant: devTenant, Defect: devDefect, Log: slog.New(slog.DiscardHandler)}) // its dead letters are intended
	mux := http.NewServeMux()
	mux.Handle("POST /events/{topic}", receive)
	mux.Handle("/", payments.NewServer(db, payments.Config{Log: log, Observer: attempts}))
	handler, token := pages.Pages(own.Operator, who)
	address := "http://" + service.Addr().String()
	relay := outbox.New(s, outbox.Config{RetainDelivered: time.Hour}).
		Relay(httpbroker.Publisher(address+"/events/{topic}", httpbroker.Config{}), outbox.RelayConfig{DeadLetters: true, Observer: outbox.Log(log)})

	fmt.Fprintf(m.Stdout, "database  %s\nservice   %s\nconsole   http://%s/?token=%s\nThe audit records changes under the name %s. Ctrl-C ends all parts, and deletes the database.\n", own.Name, address, front.Addr(), token, who)
	return together(ctx,
		func(ctx context.Context) error { return cli.Serve(ctx, devServer(mux, log), service) },
		func(ctx context.Context) error { return cli.Serve(ctx, devServer(handler, log), front) },
		relay.Run, look,
		(&traffic{base: address}).run,
	)
}

// open opens a listener on a loopback address: only this machine can reach the service and the console.
func (*dev) open(ctx context.Context, flag, address string) (net.Listener, error) {
	if addr, err := netip.ParseAddrPort(address); err != nil || !addr.Addr().IsLoopback() {
		return nil, cli.Usage(fmt.Sprintf("--%s %q is not an address of the loopback interface", flag, address), "--"+flag+" 127.0.0.1:0")
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%w. Try: --%s 127.0.0.1:0, which takes a free port", err, flag)
	}
	return l, nil
}

func devServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
}

// together runs parts until ctx ends or one of them ends, and then stops the others.
func together(ctx context.Context, parts ...func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	failed := make(chan error, len(parts))
	for _, part := range parts {
		running.Go(func() {
			defer cancel()
			failed <- part(ctx)
		})
	}
	running.Wait()
	close(failed)
	var errs []error
	for err := range failed {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// devDefect is the amount of a refund that the receiver cannot book.
const devDefect = 1313

// traffic sends requests like customers.
type traffic struct{ base string }

const trafficEvery = 500 * time.Millisecond

func (t *traffic) run(ctx context.Context) error {
	tick := time.NewTicker(trafficEvery)
	defer tick.Stop()
	for n := 1; ; n++ {
		t.customer(ctx, n)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// customer pays, and sometimes gets a refund.
func (t *traffic) customer(ctx context.Context, n int) {
	charge := t.post(ctx, "/charges", fmt.Sprintf("charge-%d", n), map[string]any{"amount": 5000, "currency": "EUR", "customer": "ada"})
	if n%3 == 0 { // as if the answer was lost: the retry gets the stored one
		t.post(ctx, "/charges", fmt.Sprintf("charge-%d", n), map[string]any{"amount": 5000, "currency": "EUR", "customer": "ada"})
	}
	amount := int64(500)
	if n%10 == 4 {
		amount = devDefect
	}
	if n%2 != 0 && amount != devDefect || charge == "" {
		return
	}
	key := fmt.Sprintf("refund-%d", n)
	refund := t.post(ctx, "/refunds", key, map[string]any{"charge_id": charge, "amount": amount})
	if n%8 == 0 { // a key that is used for another request is refused
		t.post(ctx, "/refunds", key, map[string]any{"charge_id": charge, "amount": amount + 1})
	}
	if amount == devDefect && refund != "" {
		t.post(ctx, "/refunds/"+refund+"/void", "void-"+key, map[string]any{})
	}
}

// post sends a request, and returns the ID of the created object.
func (t *traffic) post(ctx context.Context, path, key string, body map[string]any) (id string) {
	text, err := json.Marshal(body)
	if err != nil {
		return ""
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, t.base+path, bytes.NewReader(text))
	if err != nil {
		return ""
	}
	r.Header.Set("Authorization", "Bearer "+devTenant)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", key)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return "" // the demo has ended
	}
	defer answer.Body.Close()
	var made struct {
		ID string `json:"id"`
	}
	_ = json.NewDecoder(answer.Body).Decode(&made) // a refusal has no ID
	return made.ID
}
