package demo

import (
	"context"
	"errors"
	"net/netip"
	"net/url"
	"time"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/gateway"
	"github.com/oncelib/once/gateway/receipt"
	"github.com/oncelib/once/lease"
)

var proxyEntry = cli.Entry{
	Hidden: true, Name: "demo proxy", Brief: "be a gateway of the demo, to be killed",
	Help: `Forwards requests with keys until it is interrupted. once demo gateway starts it.`,
	Make: func() cli.Runner { return new(proxy) },
}

type proxy struct{ listen, db, receipts, upstream, policy string }

func (c *proxy) Flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.listen, "listen", "127.0.0.1:8080", "`ADDRESS` to serve at")
	fs.StringVar(&c.db, "db", "", cli.DBUsage)
	fs.StringVar(&c.receipts, "receipts", "", "`URL` of the database of the service")
	fs.StringVar(&c.upstream, "upstream", "", "`URL` of the service")
	fs.StringVar(&c.policy, "policy", "", "`NAME`")
}

func (c *proxy) Run(ctx context.Context, _ *cli.Env, _ []string) error {
	s, db, err := openStore(ctx, c.db)
	if err != nil {
		return err
	}
	defer db.Close()
	rs, rdb, err := openStore(ctx, c.receipts)
	if err != nil {
		return err
	}
	defer rdb.Close()
	u, err := url.Parse(c.upstream)
	if err != nil {
		return err
	}
	g, err := gateway.New(gateway.Config{
		Upstream: u, Principal: gateway.HeaderPrincipal("Authorization", netip.MustParsePrefix("127.0.0.0/8")),
		Store: lease.New(s, lease.Config{TTL: 300 * time.Millisecond}), Receipts: receipt.New(rs, receipt.Config{}),
		Routes: []gateway.Route{{Pattern: "POST /charges", OnUnknown: gateway.Policy(c.policy)}},
	})
	if err != nil {
		return err
	}
	return errors.Join(serveAt(ctx, c.listen, g))
}
