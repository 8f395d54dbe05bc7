package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/oncelib/once/examples/payments"
)

var demoServeEntry = entry{
	name: "demo serve", brief: "run the payments service of the demo",
	help: `Serves the payments service until it is interrupted. Its tables are created when it
starts. The bearer token of a request is the name of its tenant; every POST needs an
Idempotency-Key.

  curl -i http://127.0.0.1:8080/charges -H 'Authorization: Bearer acme' \
    -H 'Idempotency-Key: charge-1' -d '{"amount":5000,"currency":"EUR","customer":"ada"}'`,
	make: func() command { return new(demoServe) },
}

type demoServe struct {
	listen, db string
	unsafe     bool
	wait       time.Duration
}

func (c *demoServe) flags(fs *flag.FlagSet) {
	fs.StringVar(&c.listen, "listen", "127.0.0.1:8080", "`ADDRESS` to serve at")
	fs.StringVar(&c.db, "db", "", dbUsage+" (default: a new SQLite file)")
	fs.BoolVar(&c.unsafe, "unsafe", false, "leave once out: retries execute again")
	fs.DurationVar(&c.wait, "wait", 0, "how `LONG` a duplicate waits for the request in flight, such as 2s")
}

func (c *demoServe) run(ctx context.Context, m *Main, _ []string) (err error) {
	src, err := demoSource(c.db)
	if err != nil {
		return err
	}
	db, err := payments.Open(ctx, src.url)
	if err != nil {
		return fmt.Errorf("%w. Try: --db with another database", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.listen)
	if err != nil {
		return fmt.Errorf("%w. Try: --listen 127.0.0.1:0, which takes a free port", err)
	}
	log := slog.New(slog.NewTextHandler(m.Stderr, nil))
	server := &http.Server{
		Handler:           payments.NewServer(db, payments.Config{Unsafe: c.unsafe, Wait: c.wait, Log: log}),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	fmt.Fprintf(m.Stdout, "database  %s\nserving   http://%s\n", src.name, l.Addr())
	if c.unsafe {
		fmt.Fprintln(m.Stdout, "UNSAFE    keys are not looked at: a retry takes effect again")
	}
	return serve(ctx, server, l)
}

// serve serves until ctx ends, and then until the requests in flight are answered.
func serve(ctx context.Context, server *http.Server, l net.Listener) error {
	down := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
		defer cancel()
		down <- server.Shutdown(ctx)
	})
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-down
}

// demoDB is the database of a demo.
type demoDB struct {
	source

	url string
}

// demoSource is the database that dsn names, or a new SQLite file if it names none.
func demoSource(dsn string) (demoDB, error) {
	if dsn == "" {
		dir, err := os.MkdirTemp("", "once-demo-")
		if err != nil {
			return demoDB{}, err
		}
		dsn = "sqlite:" + filepath.Join(dir, "payments.db")
	}
	src, err := parseSource(dsn)
	if src.path != "" {
		dsn = "sqlite:" + src.path
	}
	return demoDB{src, dsn}, err
}
