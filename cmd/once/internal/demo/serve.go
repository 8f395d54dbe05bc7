package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/oncelib/once"
	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/cmd/once/internal/payments"
	"github.com/oncelib/once/cmd/once/internal/telemetry"
	"github.com/oncelib/once/gauge"
	"github.com/oncelib/once/internal/base/words"
	wiring "github.com/oncelib/once/telemetry"
)

var serveEntry = cli.Entry{
	Name: "demo serve", Brief: "run the payments service of the demo",
	Help: `Serves the payments service until the command is interrupted. The command creates the tables of the service when it
starts. The bearer token of a request is the name of the tenant. Every POST needs an Idempotency-Key.

  curl -i http://127.0.0.1:8080/charges -H 'Authorization: Bearer acme' \
    -H 'Idempotency-Key: charge-1' -d '{"amount":5000,"currency":"EUR","customer":"ada"}'

With --key-file the service stores each request, encrypted with the key in the file. Then "once keys export" can read
the request.

GET /openapi.json describes, without authentication, how the service handles idempotency keys. The command prints a
second address, at which GET /metrics returns the metrics that docs/observability.md lists. With --otlp the service also
sends its metrics, and a span for each operation, to a collector by OTLP/HTTP. The traceparent of the caller is the
parent of the span.

The command also runs a second service, a warehouse with a separate SQLite file. The warehouse sends a parcel for each
charge. The warehouse uses a saga, a retry client, an outbox, an inbox and webhooks. So after one charge, each panel of
the dashboard in observability/grafana has data.

With --dialect stripe-v1 the service has the charges and refunds of Stripe's API v1: the forms, the objects, the errors,
and idempotency keys that belong to an account. The service accepts every secret key. The name of the account is a hash
of the secret key: the service does not store or log the key itself.

  curl -i http://127.0.0.1:8080/v1/charges -u sk_test_acme: \
    -H 'Idempotency-Key: charge-1' -d amount=5000 -d currency=eur`,
	Make: func() cli.Runner { return new(serve) },
}

type serve struct {
	listen, db string
	dialect    string
	unsafe     bool
	events     bool
	alone      bool
	key        cli.KeyFile
	wait       *time.Duration // nil means the default of the dialect
	metrics    telemetry.Metrics
	otlp       telemetry.OTLP
}

func (c *serve) Flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.listen, "listen", "127.0.0.1:8080", "`ADDRESS` to serve at")
	fs.StringVar(&c.db, "db", "", cli.DBUsage+" (default: a new SQLite file)")
	cli.OnCommandLine(fs, "db")
	fs.StringVar(&c.dialect, "dialect", "", "`NAME` of the API that the service imitates: "+payments.StripeV1+", for Stripe's client libraries (default: an API of its own)")
	fs.BoolVar(&c.unsafe, "unsafe", false, "run the service without the library \"once\", so that the service executes each retry again")
	c.key.Flags(fs)
	fs.BoolVar(&c.events, "events", false, "add an event to an outbox for each charge, refund and voided refund")
	fs.BoolVar(&c.alone, "alone", false, "do not start the warehouse, a second service that the demo needs only for more metrics")
	c.metrics.Flags(fs, "127.0.0.1:0")
	c.otlp.Flags(fs)
	fs.Func("wait", fmt.Sprintf("the longest `TIME` for which a second request with the same key waits until the first request ends, such as 2s (default: 0s, or %[2]v with --dialect %[1]s)",
		payments.StripeV1, payments.StripeWait), func(s string) error {
		d, err := time.ParseDuration(s)
		c.wait = &d
		return err
	})
}

func (c *serve) Run(ctx context.Context, m *cli.Env, _ []string) (err error) {
	wait := time.Duration(0)
	switch {
	case c.wait == nil:
	case *c.wait < 0:
		return cli.Usage(fmt.Sprintf("--wait %s must not be negative", c.wait), "--wait 2s")
	case *c.wait == 0:
		wait = -1 // no wait, in any dialect
	default:
		wait = *c.wait
	}
	if c.dialect != "" && c.dialect != payments.StripeV1 {
		return cli.Usage(fmt.Sprintf("the dialect %q does not exist", c.dialect), "--dialect "+payments.StripeV1)
	}
	if c.unsafe && c.otlp.URL != "" {
		return cli.Usage("--unsafe runs the service without the library \"once\", so the service has no metrics that --otlp could send", "--otlp without --unsafe")
	}
	if err := c.otlp.Check(); err != nil {
		return err
	}
	if c.db != "" {
		if _, err := cli.ParseSource(c.db); err != nil {
			return err
		}
	}
	encrypter, err := c.key.Encrypter()
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.listen)
	if err != nil {
		return fmt.Errorf("%w. Try: --listen 127.0.0.1:0, which takes a free port", err)
	}
	if c.unsafe {
		c.metrics.Address = "" // without once there are no counts
	}
	if err := c.metrics.Listen(ctx); err != nil {
		return errors.Join(err, l.Close())
	}
	src, db, err := c.open(ctx) // last, because a command that fails earlier then leaves no folder behind
	if err != nil {
		c.metrics.Close()
		return errors.Join(err, l.Close())
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	log := slog.New(slog.NewTextHandler(m.Stderr, nil))
	fmt.Fprintf(m.Stdout, "database  %s\n", src.Name)
	cfg := payments.Config{Unsafe: c.unsafe, Wait: wait, Dialect: c.dialect, Encrypter: encrypter, Log: log}
	observer, stop, err := c.observe(ctx, m, log, db.Gauges())
	if err != nil {
		return errors.Join(err, l.Close())
	}
	defer stop()
	cfg.Observer = observer
	server := &http.Server{
		Handler:           payments.NewServer(db, cfg),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	fmt.Fprintf(m.Stdout, "serving   http://%s\n", l.Addr())
	if c.unsafe {
		fmt.Fprintln(m.Stdout, "UNSAFE    the service ignores idempotency keys: a retry takes effect again")
	}
	return cli.Serve(ctx, server, l)
}

// gaugesEvery is how often the gauges read the database: often, because a demo is short.
const gaugesEvery = time.Second

// observe starts metrics and traces of the operations, and the warehouse. stop ends them, and sends the rest.
func (c *serve) observe(ctx context.Context, m *cli.Env, log *slog.Logger, sources []gauge.Source) (_ once.Observer, stop func(), err error) {
	if !c.metrics.Served() && c.otlp.URL == "" {
		return nil, func() {}, nil
	}
	watch := gauge.NewWatch(gauge.Config{Every: gaugesEvery, Log: log}, sources...)
	tracer, flush, err := c.otlp.Start(ctx, "once-demo", log, watch)
	if err != nil {
		c.metrics.Close()
		return nil, nil, err
	}
	counted, unserve := c.metrics.Start(m, log, watch)
	tel := wiring.Telemetry{Logger: slog.New(slog.NewTextHandler(m.Stderr, &slog.HandlerOptions{Level: slog.LevelError})), Tracer: tracer} // the failures of the warehouse are intended
	var observers []once.Observer
	if counted != nil {
		tel.Metrics = counted
		observers = append(observers, counted)
	}
	if tracer != nil {
		observers = append(observers, tracer)
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	ended := func() error { return nil }
	if !c.alone {
		w, err := openWarehouse(ctx, tel)
		if err != nil {
			cancel()
			unserve()
			return nil, nil, err
		}
		watch.Add(w.sources()...)
		observers = append(observers, w)
		running.Go(func() {
			if err := w.run(ctx, tel.Logger); err != nil && ctx.Err() == nil {
				log.Warn("the warehouse of the demo has ended, and the service continues. Try: start once demo serve again", "error", err)
			}
		})
		ended = func() error { return w.close(ctx) }
	}
	running.Go(func() { _ = watch.Run(ctx) }) // until stop
	return once.Observers(observers...), func() {
		cancel()
		running.Wait()
		if err := ended(); err != nil {
			log.Warn("the files of the warehouse could not be deleted. Try: delete them yourself", "error", err)
		}
		flush()
		unserve()
	}, nil
}

func (c *serve) open(ctx context.Context) (database, *payments.DB, error) {
	src, err := openSource(c.db)
	if err != nil {
		return src, nil, err
	}
	openPayments := payments.Open
	if c.events {
		openPayments = payments.OpenEvents
	}
	db, err := openPayments(ctx, src.url)
	if err != nil {
		src.discard()
		_, why := words.Advice(src.Failed("open", err).Error())
		return src, nil, cli.Unreachable(fmt.Errorf("%w. Try: %s", err, why))
	}
	return src, db, nil
}

// database is the database of a demo.
type database struct {
	cli.Source

	url  string
	temp string // the folder that was made for it
}

// discard removes what openSource has made.
func (d database) discard() {
	if d.temp != "" {
		_ = os.RemoveAll(d.temp) // if it fails, the folder stays in the folder for temporary files
	}
}

// openSource returns the database of dsn, or a new SQLite file if dsn is empty.
func openSource(dsn string) (database, error) {
	temp := ""
	if dsn == "" {
		dir, err := os.MkdirTemp("", "once-demo-")
		if err != nil {
			return database{}, err
		}
		temp = dir
		dsn = "sqlite:" + filepath.Join(dir, "payments.db")
	}
	src, err := cli.ParseSource(dsn)
	if src.Path != "" {
		dsn = "sqlite:" + src.Path
	}
	return database{src, dsn, temp}, err
}
