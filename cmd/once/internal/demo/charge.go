package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/cmd/once/internal/killstorm"
	"github.com/oncelib/once/store/sqlstore"
)

var provideEntry = cli.Entry{
	Hidden: true, Name: "demo provide", Brief: "internal: a provider that charges cards in \"once demo provider\"",
	Help: `Makes charges until the command is interrupted, and stores the charges in a file. On purpose the provider is
slow and loses some responses. With --dedupes the provider makes only one charge for each Idempotency-Key, and
accepts tombstones. A tombstone is a record that makes the provider refuse a later charge with the same key.
"once demo provider" starts this command.`,
	Make: func() cli.Runner { return new(provide) },
}

type provide struct {
	listen, file string
	dedupes      bool
}

func (c *provide) Flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.listen, "listen", "127.0.0.1:8081", "`ADDRESS` to serve at")
	fs.StringVar(&c.file, "file", "", "`PATH` of the file with the charges (required)")
	fs.BoolVar(&c.dedupes, "dedupes", false, "make only one charge for each Idempotency-Key")
}

func (c *provide) Run(ctx context.Context, _ *cli.Env, _ []string) error {
	if c.file == "" {
		return cli.Usage("--file is missing", "once demo provider, which starts its providers itself")
	}
	p, err := killstorm.OpenProvider(c.file, c.dedupes)
	if err != nil {
		return fmt.Errorf("%w. Try: --file with a path that can be written", err)
	}
	return serveAt(ctx, c.listen, p)
}

// serveAt serves a process of the demo.
func serveAt(ctx context.Context, address string, h http.Handler) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("%w. Try: --listen 127.0.0.1:0, which takes a free port", err)
	}
	return cli.Serve(ctx, &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)}, l)
}

var chargeEntry = cli.Entry{
	Hidden: true, Name: "demo charge", Brief: "internal: a node of the service in \"once demo provider\"",
	Help: `Accepts orders, charges them through the two providers and books them, until the command is interrupted. The service
charges and books each order in phases under leases: see package lease. "once demo provider" starts this command.`,
	Make: func() cli.Runner { return new(charge) },
}

type charge struct{ listen, db, dedupes, forgets string }

func (c *charge) Flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.listen, "listen", "127.0.0.1:8080", "`ADDRESS` to serve at")
	fs.StringVar(&c.db, "db", "", cli.DBUsage)
	cli.OnCommandLine(fs, "db")
	fs.StringVar(&c.dedupes, "dedupes", "", "`ADDRESS` of the provider that makes one charge for each key (required)")
	fs.StringVar(&c.forgets, "forgets", "", "`ADDRESS` of the provider that ignores keys (required)")
}

func (c *charge) Run(ctx context.Context, m *cli.Env, _ []string) (err error) {
	if c.dedupes == "" || c.forgets == "" {
		return cli.Usage("--dedupes and --forgets are both required", "once demo provider, which starts its service itself")
	}
	db, err := cli.OpenDatabase(ctx, c.db, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	s, err := sqlstore.New(ctx, db.DB, sqlstore.Config{})
	if err != nil {
		return db.Failed("open", err)
	}
	log := slog.New(slog.NewTextHandler(m.Stderr, nil))
	slog.SetDefault(log)
	node, err := killstorm.NewCharging(killstorm.ChargingConfig{Store: s, Dedupes: c.dedupes, Forgets: c.forgets, Log: log})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var completes sync.WaitGroup
	completes.Go(func() {
		if err := node.Complete(ctx); err != nil {
			log.Error("the completer, which continues the operations of dead processes, has ended", "error", err)
		}
	})
	defer completes.Wait()
	defer cancel()
	return serveAt(ctx, c.listen, node)
}
