package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // driver "pgx"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	_ "modernc.org/sqlite" // driver "sqlite"

	"github.com/oncelib/once"
	"github.com/oncelib/once/broker/natsbroker"
	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/gauge"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/onceprom"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store/sqlstore"
)

// service has the differences between orders and shipping.
type service struct {
	name   string
	tables []string // its own
	reads  string   // the topic that its inbox reads

	// apply handles a message of that topic, in the transaction that stores that it was handled.
	apply func(box *outbox.Box[*sql.Tx]) inbox.Handler[*sql.Tx]

	routes func(mux *http.ServeMux, db *sql.DB, engine *once.Engine[*sql.Tx], box *outbox.Box[*sql.Tx])
}

// services are all there are, in the order of their ports.
var services = []service{orders, shipping}

// run is one service, until ctx ends.
func (s service) run(ctx context.Context, cfg *config, number int) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})).With("service", s.name)

	// One database has the tables of the service and the tables of once.
	db, store, err := open(ctx, *cfg.database[s.name], s.tables)
	if err != nil {
		return err
	}
	defer db.Close()

	// Events for others: the outbox commits with the write, and its relay delivers to the broker.
	js, err := connect(ctx, cfg.broker())
	if err != nil {
		return err
	}
	defer js.Conn().Close()
	box := outbox.New(store, outbox.Config{Source: "/" + s.name})
	letters := deadletter.New(store, deadletter.Config{})
	watch := gauge.NewWatch(gauge.Config{Every: time.Second}, box, letters, gauge.Operations(store), gauge.Pool(store))
	metrics := onceprom.New(onceprom.Config{Gauges: watch})
	relay := box.Relay(natsbroker.Publisher(js), outbox.RelayConfig{
		TTL:         2 * time.Second, // the next process takes over this long after a SIGKILL
		DeadLetters: true, Observer: outbox.Observers(outbox.Metrics(metrics), outbox.Log(log)),
	})

	// Work that happens once: requests by the engine, and messages of others by the inbox. A commit wakes the relay.
	engine := once.New(store, once.Config{AfterCommit: relay.Wake, Observer: once.Observers(metrics, once.Log(log))})
	in := inbox.New(engine, inbox.Config{
		Consumer: s.name, Order: inbox.InOrder, Observer: inbox.Observers(inbox.Metrics(metrics), inbox.Log(log)),
	})

	api := http.NewServeMux()
	s.routes(api, db, engine, box)

	// Metrics have a listener of their own, which users of the service cannot reach.
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics)
	own := http.NewServeMux()
	own.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	own.HandleFunc("GET /pid", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, os.Getpid()) }) // for kill

	return together(ctx,
		func(ctx context.Context) error { return serve(ctx, cfg.serving(number), api) },
		func(ctx context.Context) error { return serve(ctx, cfg.metrics(number), own) },
		relay.Run,
		func(ctx context.Context) error {
			return natsbroker.Consume(ctx, js, in, s.apply(box), natsbroker.ConsumerConfig{
				Subjects: []string{s.reads}, Log: log,
				AckWait: 2 * time.Second, // the broker delivers again this long after a SIGKILL
			})
		},
		watch.Run,
		supervised,
	)
}

const pragmas = "?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)&_txlock=immediate"

// open opens a database of either kind, and makes the tables.
func open(ctx context.Context, url string, tables []string) (*sql.DB, *sqlstore.Store, error) {
	driver := "sqlite"
	if strings.HasPrefix(url, "postgres") {
		driver = "pgx"
	}
	db, err := sqlstore.Open(driver, url)
	if err != nil {
		return nil, nil, err
	}
	err = sqlstore.Migrate(ctx, db, outbox.Migrations, inbox.Migrations, deadletter.Migrations, operate.Migrations)
	for _, table := range tables {
		if err == nil {
			_, err = db.ExecContext(ctx, table)
		}
	}
	var store *sqlstore.Store
	if err == nil {
		store, err = sqlstore.New(ctx, db, sqlstore.Config{})
	}
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return db, store, nil
}

// serve serves HTTP until ctx ends, and lets running requests finish.
func serve(ctx context.Context, address string, handler http.Handler) error {
	server := &http.Server{Addr: address, Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	select {
	case err := <-failed:
		return fmt.Errorf("%w. Try: -port with the first of five free ports", err)
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain/2)
	defer cancel()
	return server.Shutdown(ending)
}

// supervised returns when the parent process has ended: then its end of the pipe is closed.
func supervised(ctx context.Context) error {
	gone := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(gone)
	}()
	select {
	case <-gone:
		return errors.New("the process that started this service has ended")
	case <-ctx.Done():
		return nil
	}
}
