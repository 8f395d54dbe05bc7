package demo

import (
	"context"
	"os"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/cmd/once/internal/killstorm"
)

var clientEntry = cli.Entry{
	Hidden: true, Name: "demo client", Brief: "internal: a client in once demo",
	Help: `Reads from standard input, one JSON object per line, the requests to send to the service, and
writes to standard output what happens. It retries with package retryhttp, and keeps
its open requests in a journal: see once journal list. once demo starts several clients.`,
	Make: func() cli.Runner { return new(client) },
}

type client struct{ worker killstorm.Worker }

func (c *client) Flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.worker.Address, "server", "", "`ADDRESS` of the service, required")
	fs.StringVar(&c.worker.Tenant, "tenant", "demo", "`NAME` of the tenant")
	fs.StringVar(&c.worker.Journal, "file", "", "`PATH` of the journal, required")
	fs.Uint64Var(&c.worker.Seed, "seed", 0, "`NUMBER` that decides what the network does")
}

func (c *client) Run(ctx context.Context, m *cli.Env, _ []string) error {
	if c.worker.Address == "" || c.worker.Journal == "" {
		return cli.Usage("--server or --file is missing", "once demo, which starts its clients itself")
	}
	return c.worker.Run(ctx, os.Stdin, m.Stdout)
}
