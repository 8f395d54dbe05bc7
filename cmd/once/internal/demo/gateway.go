package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/cmd/once/internal/killstorm"
	"github.com/oncelib/once/gateway"
	"github.com/oncelib/once/internal/base/words"
)

var gatewayEntry = cli.Entry{
	Name: "demo gateway", Brief: "kill services without idempotency keys and the gateways in front of these services, then count the charges",
	Help: `Starts a service in Python and a service in Node, which charge cards and do not support idempotency keys.
Clients send orders to the services and retry. For a quarter of the orders the demo kills the service (SIGKILL) before the
commit of the service. For another quarter of the orders the demo kills the service after the commit and before the
response. For another quarter of the orders the demo kills the gateway after the commit of the service. The demo sends
the orders four times. Each time the demo uses new databases and a different protection against repeated charges:

  bare    no gateway is used
  retry   if a response is lost, "once gateway" releases the key, as other gateways do
  stop    if a response is lost, "once gateway" keeps the key: the outcome is unknown until an operator
          decides the outcome
  check   if a response is lost, "once gateway" reads the receipt that the service writes in its own transaction

Then the demo counts the charges in the databases of the services. The exit code is 0 only if all these statements are
true: with stop and check no order is charged twice; with check every order is charged and gets a response; with bare
and retry some orders are charged twice; with stop some outcomes are unknown; and with check receipts have resolved some
unknown outcomes.

The service in Python needs only the standard library, and the service in Node only node:sqlite. If Python or Node is
not installed, a service in Go replaces it. --db is the database of the gateways.`,
	Make: func() cli.Runner { return new(gateways) },
}

type gateways struct {
	frame

	languages []language
}

func (c *gateways) Flags(fs *pflag.FlagSet) {
	c.flags(fs, usualOrders, fmt.Sprintf("the `NUMBER` of orders that the clients send in each of the four runs, a multiple of %d", killstorm.OrderStep), "seed: the `NUMBER` that decides for which orders a process is killed", "`FILE` for the logs of the processes")
}

const usualOrders = 16

func (c *gateways) Run(ctx context.Context, m *cli.Env, _ []string) error {
	if err := c.check(killstorm.OrderStep, usualOrders); err != nil {
		return err
	}
	if c.ops%killstorm.OrderStep != 0 {
		return cli.Usage(fmt.Sprintf("--ops %d is not a multiple of %d", c.ops, killstorm.OrderStep), fmt.Sprintf("--ops %d", (c.ops/killstorm.OrderStep+1)*killstorm.OrderStep))
	}
	return c.run(m, "once demo gateway --ops 8 --log storm.log, then read storm.log", func(src database, progress func(killstorm.Progress)) (outcome, error) {
		return c.storm(ctx, src, progress)
	})
}

func (c *gateways) storm(ctx context.Context, src database, progress func(killstorm.Progress)) (o outcome, err error) {
	if err := prepare(ctx, src, nil); err != nil {
		return o, err
	}
	dir, err := os.MkdirTemp("", "once-demo-gateway-")
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	for _, i := range interpreters {
		l, err := c.languageFor(ctx, i, dir)
		if err != nil {
			return o, err
		}
		c.languages = append(c.languages, l)
	}
	log, err := c.openLog()
	if err != nil {
		return o, err
	}
	defer log.Close()
	cfg := killstorm.GatewaysConfig{Orders: c.ops, Seed: c.seed, Session: session(), Progress: progress}
	for _, policy := range []gateway.Policy{"", gateway.PolicyRetry, gateway.PolicyStop, gateway.PolicyCheck} {
		m := killstorm.GatewayMode{Name: killstorm.ModeBare}
		if policy != "" {
			m.Name = string(policy)
		}
		for n, l := range c.languages {
			f, err := c.front(ctx, src, filepath.Join(dir, fmt.Sprintf("%s-%d", m.Name, n)), l, policy, log)
			if err != nil {
				return o, err
			}
			defer f.Books.Close()
			m.Fronts = append(m.Fronts, f)
		}
		cfg.Modes = append(cfg.Modes, m)
	}
	r, err := killstorm.RunGateways(ctx, cfg)
	return outcome{r, r.OK, func(w io.Writer) error { return c.print(w, r, src) }}, err
}

// front makes a shop with a new database, and with a policy a gateway in front of it. The names of its files begin with path.
func (c *gateways) front(ctx context.Context, src database, path string, l language, policy gateway.Policy, log io.Writer) (f killstorm.Front, err error) {
	tables, err := killstorm.ShopTables()
	if err != nil {
		return f, err
	}
	books := "sqlite:" + path + ".db"
	db, err := cli.OpenDatabase(ctx, books, true)
	if err != nil {
		return f, err
	}
	for _, table := range tables {
		if _, err := db.ExecContext(ctx, table); err != nil {
			return f, errors.Join(db.Failed("migrate", err), db.Close())
		}
	}
	f = killstorm.Front{Shop: l.shop(path+".db", policy == gateway.PolicyCheck, log), Path: "/" + filepath.Base(path), Books: db.DB}
	if policy == "" {
		return f, nil
	}
	f.Gateway = c.server(func() []string {
		return []string{"gateway", "--config", path + ".yaml", "--upstream", "http://" + f.Shop.Address(), "--admin", "127.0.0.1:0"}
	})
	f.Gateway.Log = log
	text := fmt.Sprintf(gatewayFile, filepath.Base(path), killstorm.TenantHeader, src.url, lease, f.Path, policy)
	if policy == gateway.PolicyCheck {
		text += fmt.Sprintf("  receipt: %q\n", books)
	}
	return f, os.WriteFile(path+".yaml", []byte(text), 0o600)
}

// lease is how long the next gateway waits for the operations of a killed one. A real gateway has 15 s.
const lease = "300ms"

// gatewayFile is the configuration of a gateway. The gateways share a store, and each has the name of its shop.
const gatewayFile = `gateway:
  name: %s
  principal: {header: %s, trusted_from: [127.0.0.0/8]}
  store: %q
  lease: %s
  routes:
    - {match: POST %s, on_unknown: %s}
`

// modes explain each row to the reader.
var modes = map[string]string{
	killstorm.ModeBare:          "no gateway is used",
	string(gateway.PolicyRetry): "if a response is lost, the gateway releases the key, as other gateways do",
	string(gateway.PolicyStop):  "if a response is lost, the gateway keeps the key, and an operator decides the outcome",
	string(gateway.PolicyCheck): "if a response is lost, the gateway reads the receipt that the service has written",
}

// print explains the kills and the charges to a reader who does not know the demo.
func (c *gateways) print(w io.Writer, r killstorm.GatewaysReport, src database) error {
	fmt.Fprintf(w, "\nonce demo gateway\n%d orders four times in %s, on %s, seed %d\n", c.ops, r.Took.Round(100*time.Millisecond), src.Name, c.seed)
	fmt.Fprintf(w, "services in %s and %s\n", c.languages[0], c.languages[1])
	fmt.Fprintf(w, "%d times a service was killed (SIGKILL) before or after its commit, and %d times a gateway was killed\n\n", r.ShopKills, r.GatewayKills)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "mode\trequests\tforwards\tdouble_effects\tunknown\tresolved_by_receipt\tok\t")
	for _, m := range r.Modes {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%s\t\n", m.Mode, m.Requests, m.Forwards, m.DoubleEffects, m.Unknown, m.ResolvedByReceipt, words.Either(m.OK, "yes", "no"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	for _, m := range r.Modes {
		fmt.Fprintf(w, "  %-5s  %s\n", m.Mode, modes[m.Mode])
	}
	if err := newFigures(w).verdict(r.OK, "with the protection stop, no order is charged twice, and clients learn which outcomes are unknown; with the protection check, no outcome stays unknown.", r.Reasons); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nNext: the operations that wait for the decision of an operator\n  %s keys list --state unknown --db %s\n", self(), src.Paste)
	return err
}
