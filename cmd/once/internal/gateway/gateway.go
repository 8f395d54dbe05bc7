// Package gateway has the commands of "once gateway", a proxy that adds idempotency keys to a service that does not support them.
package gateway

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"github.com/oncelib/once"
	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/cmd/once/internal/telemetry"
	"github.com/oncelib/once/gateway"
	"github.com/oncelib/once/gateway/receipt"
	"github.com/oncelib/once/gauge"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/onceprom"
	"github.com/oncelib/once/store/memstore"
)

const brief = "run a reverse proxy that adds idempotency keys to a service"

// Noun is once gateway.
var Noun = cli.Noun{
	Name: "gateway", Brief: brief, Group: cli.GroupRun,
	Entries: []cli.Entry{runEntry, checkEntry},
}

var runEntry = cli.Entry{
	Name: "gateway", Brief: brief,
	Help: `Runs a reverse proxy in front of a service. If a client sends a request again with the same idempotency key, the gateway
answers with the first response, and does not forward the request again. If the first response was lost, the gateway
follows the policy of the route. The section "gateway" of once.yaml lists the routes that the gateway protects:

  gateway:
    upstream: http://127.0.0.1:3000
    principal: {header: X-Tenant, trusted_from: [10.0.0.0/8]}
    routes:
      - {match: POST /payments, wait: 5s}

The gateway forwards requests for other routes without a change. The gateway stores keys and responses in
once-gateway.db, an SQLite file, unless the setting "store" in the file names another database. If you run several
instances of the gateway, all instances must use the same store. On SIGHUP the gateway reads once.yaml again. If the
file contains a mistake, the gateway keeps the old configuration. On SIGTERM /readyz fails, the gateway finishes the
requests that are running, and then ends with the exit code 0. docs/gateway-daemon.md describes every setting.`,
	Make: func() cli.Runner { return new(run) },
}

type run struct {
	flags
	set *pflag.FlagSet
	key cli.KeyFile
}

// Flags implements [cli.Runner].
func (c *run) Flags(fs *pflag.FlagSet) {
	c.set = fs
	c.add(fs)
	c.key.Flags(fs)
}

func (f *flags) add(fs *pflag.FlagSet) {
	fs.StringVar(&f.upstream, "upstream", "", "`URL` of the service: http, https, or h2c for HTTP/2 without TLS (default: upstream in the file)")
	fs.StringVar(&f.listen, "listen", "", "`ADDRESS` at which the gateway serves clients (default: listen in the file, or "+defaultListen+")")
	fs.StringVar(&f.admin, "admin", "", "`ADDRESS` of /livez, /readyz and /metrics (default: admin in the file, or "+defaultAdmin+")")
	fs.StringVar(&f.store, "store", "", "`URL` of the database for keys and responses, or \"receipt\" to use only the receipts of the service (default: store in the file, or "+defaultStore+")")
}

// Run implements [cli.Runner].
func (c *run) Run(ctx context.Context, m *cli.Env, _ []string) (err error) {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP) // before anything else, because an unhandled SIGHUP ends the process
	defer signal.Stop(hup)
	encrypter, err := c.key.Encrypter()
	if err != nil {
		return err
	}
	file := m.ConfigFile(c.set)
	cfg, src, err := read(file, c.flags)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(m.Stderr, nil))
	ends, err := listen(ctx, cfg)
	if err != nil {
		return err
	}
	defer ends.close()
	back, err := openBacking(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer back.close()
	if back.isSQLite && os.Getenv("KUBERNETES_SERVICE_HOST") != "" {
		log.WarnContext(ctx, "the store is an SQLite file, and the gateway runs in Kubernetes: two instances would both forward a request with the same key. Try: use one replica with strategy Recreate, store: postgres://..., or store: receipt")
	}
	p := &proxy{file: file, flags: c.flags, back: back, guards: newGuards(), encrypter: encrypter, log: log}
	p.strangers.log = log
	watch, unwatch := telemetry.Watch(ctx, log, gauge.DefaultEvery, append([]gauge.Source{p.guards}, back.gauges...))
	defer unwatch()
	counted := onceprom.New(onceprom.Config{Gauges: watch})
	p.observer = once.Observers(counted, once.Log(log))
	first, err := p.build(cfg, src)
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx)) // it is not cancelled with ctx, because running requests still need it
	defer stop()
	p.begin(running, first)
	defer func() { p.current.Load().stop() }()
	defer p.sweep(running)()
	defer p.count(running)()
	d := &daemon{proxy: p, ends: ends, counted: counted, wait: *cfg.DrainWait, timeout: cfg.DrainTimeout}
	fmt.Fprintf(m.Stdout, "store     %s\nadmin     http://%s\nserving   %s\n", back.name, ends.admin.Addr(), ends.url())
	return d.serve(ctx, hup, func() {
		if err := p.reload(running); err != nil {
			log.ErrorContext(ctx, "the new configuration is not valid; the gateway keeps the old configuration")
			fmt.Fprintf(m.Stderr, "%s\n", strings.TrimRight(err.Error(), "\n"))
			return
		}
		log.InfoContext(ctx, "the gateway uses the new configuration")
	})
}

var checkEntry = cli.Entry{
	Quick: true, Name: "gateway check", Brief: "find mistakes in the file of a gateway",
	Help: `Reads once.yaml in the same way as "once gateway", and reports each mistake with its line and a caret (^).
The command does not open a database and does not listen on an address. For each route the command prints the principal
(the value that distinguishes callers), the receipt, and the policy on_unknown.`,
	Make: func() cli.Runner { return new(check) },
}

type check struct {
	flags
	set *pflag.FlagSet
}

// Flags implements [cli.Runner].
func (c *check) Flags(fs *pflag.FlagSet) {
	c.set = fs
	c.add(fs)
}

// Run implements [cli.Runner].
func (c *check) Run(_ context.Context, m *cli.Env, _ []string) error {
	cfg, err := checked(m.ConfigFile(c.set), c.flags)
	if err != nil {
		return err
	}
	fmt.Fprintf(m.Stdout, "upstream  %s\nstore     %s\nroutes    %d\n", cfg.Upstream, nameOfStore(cfg.Store), len(cfg.Routes))
	if text := cfg.unusedReceipt(); text != "" {
		fmt.Fprintf(m.Stderr, "warning: %s\n", text)
	}
	return printRoutes(m.Stdout, cfg)
}

// printRoutes prints for each route how the caller is determined, and what the gateway does when an outcome is unknown.
func printRoutes(w io.Writer, c *config) error {
	principal, receipt := "anyone", "none"
	if c.Principal.Header != "" {
		networks := make([]string, len(c.Principal.TrustedFrom))
		for i, n := range prefixes(c.Principal.TrustedFrom) {
			networks[i] = n.String()
		}
		principal = c.Principal.Header + " from " + strings.Join(networks, ", ")
	}
	if c.Receipt != "" {
		receipt, _ = nameOfReceipts(c.Receipt) // cannot fail: it was checked
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if len(c.Routes) > 0 {
		fmt.Fprint(t, "\nROUTE\tPRINCIPAL\tRECEIPT\tON_UNKNOWN\n")
	}
	for _, r := range c.Routes {
		onUnknown := cmp.Or(r.OnUnknown, string(gateway.PolicyStop))
		if c.Store == storeReceipt {
			onUnknown = "the receipt decides"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", words.Shown(r.Match), principal, receipt, onUnknown)
	}
	return t.Flush()
}

// checked returns a config that once gateway would use.
func checked(file string, f flags) (*config, error) {
	cfg, src, err := read(file, f)
	if err != nil {
		return nil, err
	}
	back := new(backing)
	if cfg.Store != storeReceipt {
		back.leases = lease.New(memstore.New(), lease.Config{})
	}
	if cfg.Receipt != "" {
		if back.receipts, err = receipt.NewClient("http://127.0.0.1/once-receipt", receipt.ClientConfig{}); err != nil {
			return nil, err
		}
	}
	_, err = (&proxy{back: back, guards: newGuards()}).build(cfg, src)
	return cfg, err
}
