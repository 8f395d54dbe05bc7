package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/cmd/once/internal/killstorm"
	"github.com/oncelib/once/store/sqlstore"
)

var sendEntry = cli.Entry{
	Hidden: true, Name: "demo send", Brief: "internal: a node of the sender of webhooks in \"once demo webhooks\"",
	Help: `Makes refunds, adds a webhook for each refund and delivers the webhooks, until the command is interrupted.
"once demo webhooks" starts this command.`,
	Make: func() cli.Runner { return new(send) },
}

type send struct {
	listen, db string
	ports      []uint
}

func (c *send) Flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.listen, "listen", "127.0.0.1:8080", "`ADDRESS` to serve at")
	fs.StringVar(&c.db, "db", "", cli.DBUsage)
	cli.OnCommandLine(fs, "db")
	fs.UintSliceVar(&c.ports, "ports", nil, "`PORTS` of this host to which the sender may deliver webhooks")
}

func (c *send) Run(ctx context.Context, m *cli.Env, _ []string) error {
	log := slog.New(slog.NewTextHandler(m.Stderr, nil))
	s, db, err := openStore(ctx, c.db)
	if err != nil {
		return err
	}
	ports := make([]uint16, len(c.ports))
	for i, p := range c.ports {
		ports[i] = uint16(p)
	}
	node, err := killstorm.NewSender(s, ports, log)
	if err != nil {
		return errors.Join(err, db.Close())
	}
	ctx, cancel := context.WithCancel(ctx)
	var delivering sync.WaitGroup
	delivering.Go(func() {
		if err := node.Run(ctx); err != nil {
			log.Error("webhooks are not delivered, because the relay has ended", "error", err)
		}
	})
	err = serveAt(ctx, c.listen, node)
	cancel()
	delivering.Wait()
	return errors.Join(err, db.Close())
}

// openStore opens the store of a process of the demo.
func openStore(ctx context.Context, url string) (*sqlstore.Store, *cli.Database, error) {
	db, err := cli.OpenDatabase(ctx, url, true)
	if err != nil {
		return nil, nil, err
	}
	s, err := sqlstore.New(ctx, db.DB, sqlstore.Config{})
	if err != nil {
		return nil, nil, errors.Join(db.Failed("open", err), db.Close())
	}
	return s, db, nil
}

var hookEntry = cli.Entry{
	Hidden: true, Name: "demo hook", Brief: "internal: the receiver of webhooks in \"once demo webhooks\"",
	Help: `Verifies webhooks and books their events through an inbox, until the command is interrupted. On purpose the
receiver is slow and loses some responses. "once demo webhooks" starts this command.`,
	Make: func() cli.Runner { return new(hook) },
}

type hook struct {
	listen, db, file string
	unsafe           bool
}

func (c *hook) Flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.listen, "listen", "127.0.0.1:8081", "`ADDRESS` to serve at")
	fs.StringVar(&c.db, "db", "", cli.DBUsage)
	cli.OnCommandLine(fs, "db")
	fs.StringVar(&c.file, "file", "", "`FILE` with the secret of the endpoint (required)")
	fs.BoolVar(&c.unsafe, "unsafe", false, "verify no signatures, and book events without an inbox")
}

func (c *hook) Run(ctx context.Context, m *cli.Env, _ []string) error {
	if c.file == "" {
		return cli.Usage("--file is missing", "once demo webhooks, which starts its receiver itself")
	}
	s, db, err := openStore(ctx, c.db)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(m.Stderr, nil))
	err = serveAt(ctx, c.listen, killstorm.NewHookReceiver(s, db.DB, c.file, c.unsafe, log))
	if end := db.Close(); end != nil {
		err = errors.Join(err, fmt.Errorf("close the database: %w", end))
	}
	return err
}
