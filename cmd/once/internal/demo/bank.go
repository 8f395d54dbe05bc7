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

var bankEntry = cli.Entry{
	Hidden: true, Name: "demo bank", Brief: "internal: a node of a bank in \"once demo transfer\"",
	Help: `With --clearing this process is the first bank, which sends transfers. Without --clearing this process is
the second bank, which accepts deposits and can undo them. "once demo transfer" starts this command.`,
	Make: func() cli.Runner { return new(bank) },
}

type bank struct{ listen, db, clearing, session string }

func (c *bank) Flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.listen, "listen", "127.0.0.1:8080", "`ADDRESS` to serve at")
	fs.StringVar(&c.db, "db", "", cli.DBUsage)
	cli.OnCommandLine(fs, "db")
	fs.StringVar(&c.clearing, "clearing", "", "`ADDRESS` of the clearing house")
	fs.StringVar(&c.session, "session", "demo", "`NAME` of this run of the demo")
}

func (c *bank) Run(ctx context.Context, m *cli.Env, _ []string) (err error) {
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
	if c.clearing == "" {
		return serveAt(ctx, c.listen, killstorm.NewOtherBank(s))
	}
	node := killstorm.NewBank(s, c.clearing, c.session, log)
	ctx, cancel := context.WithCancel(ctx)
	var runs sync.WaitGroup
	runs.Go(func() {
		if err := node.Run(ctx); err != nil {
			log.Error("the service no longer resumes the transfers of dead processes, because the runner of sagas has ended", "error", err)
		}
	})
	defer runs.Wait()
	defer cancel()
	return serveAt(ctx, c.listen, node)
}

var clearEntry = cli.Entry{
	Hidden: true, Name: "demo clear", Brief: "internal: the clearing house in \"once demo transfer\"",
	Help: `Forwards requests to the second bank. On purpose the clearing house loses, duplicates and delays some
requests. "once demo transfer" starts this command.`,
	Make: func() cli.Runner { return new(clearing) },
}

type clearing struct{ listen, file, to string }

func (c *clearing) Flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.listen, "listen", "127.0.0.1:8080", "`ADDRESS` to serve at")
	fs.StringVar(&c.file, "file", "", "`FILE` in which the clearing house records the requests (required)")
	fs.StringVar(&c.to, "to", "", "`ADDRESS` of the second bank (required)")
}

func (c *clearing) Run(ctx context.Context, _ *cli.Env, _ []string) error {
	if c.file == "" || c.to == "" {
		return cli.Usage("--file or --to is missing", "once demo transfer, which starts its clearing house itself")
	}
	h, err := killstorm.OpenClearing(c.file, c.to)
	if err != nil {
		return fmt.Errorf("%w. Try: --file with a path that can be written", err)
	}
	return serveAt(ctx, c.listen, h)
}
