package demo

import (
	"context"
	"os"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/cmd/once/internal/killstorm"
)

var clientEntry = cli.Entry{
	Hidden: true, Name: "demo client", Brief: "internal: a client in \"once demo\"",
	Help: `Reads requests from standard input, one JSON object per line, and sends the requests to the service. The
client writes the outcome of each request to standard output. The client retries with package retryhttp, and stores
its open requests in a journal: see "once journal list". "once demo" starts several clients.`,
	Make: func() cli.Runner { return new(client) },
}

type client struct{ worker killstorm.Worker }

func (c *client) Flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.worker.Address, "server", "", "`ADDRESS` of the service (required)")
	fs.StringVar(&c.worker.Tenant, "tenant", "demo", "`NAME` of the tenant")
	fs.StringVar(&c.worker.Journal, "file", "", "`PATH` of the journal (required)")
	fs.Uint64Var(&c.worker.Seed, "seed", 0, "seed: the `NUMBER` that decides which requests and responses the simulated network loses")
}

func (c *client) Run(ctx context.Context, m *cli.Env, _ []string) error {
	if c.worker.Address == "" || c.worker.Journal == "" {
		return cli.Usage("--server or --file is missing", "once demo, which starts its clients itself")
	}
	return c.worker.Run(ctx, os.Stdin, m.Stdout)
}
