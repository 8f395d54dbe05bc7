package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/cmd/once/internal/killstorm"
	"github.com/oncelib/once/cmd/once/internal/migrate"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/store/sqlstore"
)

var providerEntry = cli.Entry{
	Name: "demo provider", Brief: "kill a service and its two payment providers, then count the charges",
	Help: `Starts a service with two nodes, and two external payment providers; each node and each provider is a
separate process. The service writes orders, charges them through one of the providers, and books them. The first
provider makes one charge for each key. The second provider ignores keys. Both providers are slow, and lose some
responses on purpose. Clients send orders and retry. Meanwhile the demo kills each process (SIGKILL) again and again,
and starts it again.

The service does its work in phases under leases (package lease): if a node is killed, another node continues the
work. If the response of a call to a provider is lost, the service finds out the outcome in one of three ways:

  - The service makes the call again with the same key. The first provider then makes no second charge.
  - The service asks the first provider for the charge. If the provider has no such charge, the provider stores a
    tombstone: a record that makes the provider refuse a later charge with this key.
  - The second provider ignores keys, so the outcome is unknown. The operator looks the charge up in the list of the
    provider, and decides the outcome with "once keys resolve".

At the end the demo compares the charges in the files of the providers with the responses that the clients received and
with the bookings in the database. The exit code is 0 only if no order is charged twice, every response agrees with the
files of the providers, and every unknown outcome was resolved. The service must have resolved some of these outcomes
with a question to a provider, and the operator must have resolved the others.`,
	Make: func() cli.Runner { return new(provider) },
}

type provider struct{ frame }

func (c *provider) Flags(fs *pflag.FlagSet) {
	c.flags(fs, 90, fmt.Sprintf("the `NUMBER` of orders that the clients send, at least %d", killstorm.LeastOrders), "when the demo kills processes", "`FILE` for the logs of the processes")
}

const (
	providerNodes   = 2
	providerClients = 8
	providerKills   = 3 // of each process
)

func (c *provider) Run(ctx context.Context, m *cli.Env, _ []string) error {
	if err := c.check(killstorm.LeastOrders, 90); err != nil {
		return err
	}
	return c.run(m, "once demo provider --ops 36 --log storm.log, then read storm.log", func(src database, progress func(killstorm.Progress)) (outcome, error) {
		return c.storm(ctx, m, src, progress)
	})
}

func (c *provider) storm(ctx context.Context, m *cli.Env, src database, progress func(killstorm.Progress)) (o outcome, err error) {
	if err := prepare(ctx, src, killstorm.ChargingTables()); err != nil {
		return o, err
	}
	files, err := os.MkdirTemp("", "once-demo-provider-")
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(files)) }()
	cfg := killstorm.ProvidersConfig{
		Orders: c.ops, Clients: providerClients, Kills: providerKills, Seed: c.seed, Session: session(), Progress: progress,
		DedupesFile: filepath.Join(files, "dedupes"), ForgetsFile: filepath.Join(files, "forgets"),
	}
	if cfg.Witness, err = witness(ctx, src, cfg.Session); err != nil {
		return o, err
	}
	defer cfg.Witness.DB.Close()
	log, err := c.openLog()
	if err != nil {
		return o, err
	}
	defer log.Close()
	c.processes(&cfg, src, log)
	operator := keysOperator{m: m, db: src.url, dir: files}
	cfg.Unknown, cfg.Resolve = operator.unknown, operator.resolve
	r, err := killstorm.RunProviders(ctx, cfg)
	return outcome{r, r.OK, func(w io.Writer) error { return c.print(w, r, src) }}, err
}

// prepare makes the tables of all capabilities, and the tables of a service.
func prepare(ctx context.Context, src database, tables []string) (err error) {
	db, err := cli.OpenDatabase(ctx, src.url, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := sqlstore.Migrate(ctx, db.DB, migrate.Capabilities...); err != nil {
		return db.Failed("migrate", err)
	}
	for _, table := range tables {
		if _, err := db.ExecContext(ctx, table); err != nil {
			return db.Failed("migrate", err)
		}
	}
	return nil
}

// processes are further processes of this program.
func (c *provider) processes(cfg *killstorm.ProvidersConfig, src database, log io.Writer) {
	process := func(args func() []string) *killstorm.Server {
		s := c.server(args)
		s.Log = log
		return s
	}
	cfg.Dedupes = process(func() []string { return []string{"demo", "provide", "--dedupes", "--file", cfg.DedupesFile} })
	cfg.Forgets = process(func() []string { return []string{"demo", "provide", "--file", cfg.ForgetsFile} })
	for range providerNodes {
		cfg.Nodes = append(cfg.Nodes, process(func() []string {
			return []string{"demo", "charge", "--db", withSession(src, cfg.Session), "--dedupes", cfg.Dedupes.Address(), "--forgets", cfg.Forgets.Address()}
		}))
	}
}

// keysOperator is an operator who uses this program.
type keysOperator struct {
	m       *cli.Env
	db, dir string
}

// once runs a command of this program.
func (k keysOperator) once(ctx context.Context, args ...string) (stdout []byte, err error) {
	var out, complaint bytes.Buffer
	m := *k.m
	m.Stdout, m.Stderr = &out, &complaint
	if code := m.Run(ctx, append(args, "--db", k.db)); code != 0 {
		return nil, fmt.Errorf("once %s: %s", strings.Join(args, " "), complaint.String())
	}
	return out.Bytes(), nil
}

func (k keysOperator) unknown(ctx context.Context, scope string) (keys []string, err error) {
	for after := ""; ; {
		args := []string{"keys", "list", "--state", "unknown", "--scope-prefix", scope, "--limit", "500", "-o", "json"}
		if after != "" {
			args = append(args, "--after", after)
		}
		out, err := k.once(ctx, args...)
		if err != nil {
			return nil, err
		}
		var page operate.Page[operate.Operation]
		if err := json.Unmarshal(out, &page); err != nil {
			return nil, err
		}
		for _, op := range page.Items {
			keys = append(keys, op.Key)
		}
		if after = page.Next; after == "" {
			return keys, nil
		}
	}
}

func (k keysOperator) resolve(ctx context.Context, scope, key string, d killstorm.Decision) error {
	out, err := k.once(ctx, "keys", "show", key, "--scope", scope, "-o", "json")
	if err != nil {
		return err
	}
	var now struct {
		CallID string `json:"call_id"`
	}
	if err := json.Unmarshal(out, &now); err != nil {
		return err
	}
	args := []string{"keys", "resolve", key, "--scope", scope, "--call", now.CallID, "--reason", "looked at the provider's list", "--by", "operator of the demo", "--yes"}
	if d.Answer == nil {
		args = append(args, "--failed", d.Failed, "--status", "422")
	} else {
		file := filepath.Join(k.dir, "answer.json")
		if err := os.WriteFile(file, d.Answer, 0o600); err != nil {
			return err
		}
		args = append(args, "--result", file, "--status", "201")
	}
	_, err = k.once(ctx, args...)
	return err
}

// print explains the kills and the charges to a reader who does not know the demo.
func (c *provider) print(w io.Writer, r killstorm.ProvidersReport, src database) error {
	fmt.Fprintf(w, "\nonce demo provider\n%d orders by %d clients in %s, on %s, seed %d\n\n", r.Orders, providerClients, r.Took.Round(100*time.Millisecond), src.Name, c.seed)
	f := newFigures(w)
	f.head("faults in this run")
	f.row(r.ServiceKills, fmt.Sprintf("times one of %d nodes of the service was killed (SIGKILL)", r.Nodes))
	f.row(r.ProviderKills, "times a provider was killed")
	f.head("the providers")
	f.row(r.Calls, "calls have reached the providers")
	f.row(r.Deduped, "of the calls were repetitions, and the provider remembered the key")
	f.row(r.Refused, "of the calls came too late: the provider had stored a tombstone with their key")
	f.head("unknown outcomes")
	f.row(r.Unknown, "orders had an unknown outcome for a while")
	f.row(r.ResolvedByCheck, "of the unknown outcomes were resolved by the service, which asked the provider")
	f.row(r.ResolvedByOperator, "of the unknown outcomes were resolved by the operator, with once keys resolve")
	f.head("charges")
	f.row(r.Charges, fmt.Sprintf("charges for %d orders; %d orders have failed", r.Orders, r.Failed))
	f.row(r.DoubleCharges, "orders charged twice")
	if err := f.verdict(r.OK, "no order is charged twice, and every unknown outcome was resolved.", r.Reasons); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nNext: the decisions of the operator\n  %s audit list --db %s\n", self(), src.Paste)
	return err
}
