package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/cmd/once/internal/killstorm"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/store/sqlstore"
)

var demoProviderEntry = cli.Entry{
	Name: "demo provider", Brief: "kill a service and the providers it charges through, then count the charges",
	Help: `Starts a service with two nodes, which writes orders, charges them through an external
provider and books them, and two such providers, each as a process of its own. One provider dedupes
when it is given a key. The other one never does. Both are slow, and drop answers. While clients send
orders and retry, each process is killed (SIGKILL) again and again and started again.

The work is done in phases under leases (package lease), so that another node goes on with it. What
became of a call whose answer is lost is found out in one of three ways. The call is made
again with the same key, by a provider that dedupes. Or the provider is asked, and puts a tombstone
in the place of a charge that it does not have. Or, of the provider that looks at no keys, the
outcome is unknown, and the operator decides it with once keys resolve, from the provider's list.

In the end the charges in the files of the providers are compared with what the clients were told
and with the bookings in the database. The exit code is 0 only if no order is charged twice,
every answer is true, and every unknown outcome was resolved, some by a check and some by the
operator.`,
	Make: func() cli.Runner { return new(demoProvider) },
}

type demoProvider struct {
	ops  int
	db   string
	seed uint64
	log  string
	json bool
}

func (c *demoProvider) Flags(fs *pflag.FlagSet) {
	fs.IntVar(&c.ops, "ops", 90, fmt.Sprintf("how `MANY` orders, at least %d", killstorm.LeastOrders))
	fs.StringVar(&c.db, "db", "", cli.DBUsage+" (default: a new SQLite file)")
	cli.OnCommandLine(fs, "db")
	fs.Uint64Var(&c.seed, "seed", 0, "`NUMBER` that decides when something is killed (default: a new one)")
	fs.StringVar(&c.log, "log", "", "`FILE` for what the processes write")
	fs.BoolVar(&c.json, "json", false, "print the result as one JSON object")
}

const (
	providerNodes   = 2
	providerClients = 8
	providerKills   = 3 // of each process
)

func (c *demoProvider) Run(ctx context.Context, m *cli.Env, _ []string) (err error) {
	if c.ops < killstorm.LeastOrders || c.ops > mostOps {
		return cli.Usage(fmt.Sprintf("--ops %d makes no storm", c.ops), "--ops 90")
	}
	if c.seed == 0 {
		c.seed = uint64(mrand.Uint32())
	}
	src, err := demoSource(c.db)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil && !errors.Is(err, cli.ErrSaid) { // after a storm that was lost it is evidence
			src.discard()
		}
	}()
	if err := prepareCharging(ctx, src); err != nil {
		return err
	}
	files, err := os.MkdirTemp("", "once-demo-provider-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(files)) }()
	cfg := killstorm.ProvidersConfig{
		Orders: c.ops, Clients: providerClients, Kills: providerKills, Seed: c.seed, Session: "demo-" + strings.ToLower(rand.Text())[:8],
		DedupesFile: filepath.Join(files, "dedupes"), ForgetsFile: filepath.Join(files, "forgets"),
	}
	if cfg.Witness, err = witness(ctx, src, cfg.Session); err != nil {
		return err
	}
	defer cfg.Witness.DB.Close()
	var log io.Writer
	if c.log != "" {
		f, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return fmt.Errorf("%w. Try: --log with a file that can be written", err)
		}
		defer f.Close()
		log = f
	}
	if err := c.processes(&cfg, src, log); err != nil {
		return err
	}
	operator := keysOperator{m: m, db: src.url, dir: files}
	cfg.Unknown, cfg.Resolve = operator.unknown, operator.resolve
	meter := newMeter(m.Stderr)
	cfg.Progress = meter.show
	r, err := killstorm.RunProviders(ctx, cfg)
	meter.end()
	if err != nil {
		return fmt.Errorf("%w. Try: once demo provider --ops 36 --log storm.log, then read storm.log", err)
	}
	if c.json {
		if c.db == "" && r.OK {
			err = os.RemoveAll(filepath.Dir(src.Path)) // scripts do not want to look into it
		}
		err = errors.Join(err, json.NewEncoder(m.Stdout).Encode(r))
	} else {
		err = c.print(m.Stdout, r, src)
	}
	if err == nil && !r.OK {
		return cli.ErrSaid
	}
	return err
}

// prepareCharging makes the tables.
func prepareCharging(ctx context.Context, src demoDB) (err error) {
	db, err := cli.OpenDatabase(ctx, src.url, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := sqlstore.Migrate(ctx, db.DB, capabilities...); err != nil {
		return db.Failed("migrate", err)
	}
	for _, table := range killstorm.ChargingTables() {
		if _, err := db.ExecContext(ctx, table); err != nil {
			return db.Failed("migrate", err)
		}
	}
	return nil
}

// processes are this program several times more.
func (c *demoProvider) processes(cfg *killstorm.ProvidersConfig, src demoDB, log io.Writer) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	process := func(args func() []string) *killstorm.Server {
		return &killstorm.Server{Log: log, Command: func(address string) *exec.Cmd {
			return exec.Command(self, append(args(), "--listen", address)...) //nolint:noctx // the storm ends it
		}}
	}
	cfg.Dedupes = process(func() []string { return []string{"demo", "provide", "--dedupes", "--file", cfg.DedupesFile} })
	cfg.Forgets = process(func() []string { return []string{"demo", "provide", "--file", cfg.ForgetsFile} })
	db := withSession(src, cfg.Session)
	for range providerNodes {
		cfg.Nodes = append(cfg.Nodes, process(func() []string {
			return []string{"demo", "charge", "--db", db, "--dedupes", cfg.Dedupes.Address(), "--forgets", cfg.Forgets.Address()}
		}))
	}
	return nil
}

// keysOperator is a person with this program.
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
	var now keyAnswer
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

// print tells a stranger what was killed, and who was charged.
func (c *demoProvider) print(w io.Writer, r killstorm.ProvidersReport, src demoDB) error {
	fmt.Fprintf(w, "\nonce demo provider\n%d orders by %d clients in %s, on %s, seed %d\n\n", r.Orders, providerClients, r.Took.Round(100*time.Millisecond), src.Name, c.seed)
	t := tabwriter.NewWriter(w, 0, 0, 1, ' ', tabwriter.AlignRight)
	row := func(n int, what string) { fmt.Fprintf(t, "    %s\t  %s\n", number(n), what) }
	head := func(s string) { _ = t.Flush(); fmt.Fprintf(w, "  %s\n", s) }
	head("thrown at it")
	row(r.ServiceKills, fmt.Sprintf("times one of %d nodes of the service was killed (SIGKILL)", r.Nodes))
	row(r.ProviderKills, "times a provider was killed")
	head("the providers")
	row(r.Calls, "calls have come to them")
	row(r.Deduped, "of them again: the provider knew the key")
	row(r.Refused, "of them late: a tombstone had their key")
	head("unknown")
	row(r.Unknown, "orders had an outcome that was unknown for a while")
	row(r.ResolvedByCheck, "of them were resolved by asking the provider")
	row(r.ResolvedByOperator, "of them by the operator, with once keys resolve")
	head("charged")
	row(r.Charges, fmt.Sprintf("of %d orders; %d have failed", r.Orders, r.Failed))
	row(r.DoubleCharges, "twice")
	if err := t.Flush(); err != nil {
		return err
	}
	if r.OK {
		fmt.Fprintf(w, "\nOK: no order is charged twice, and every unknown outcome was resolved.\n")
	} else {
		fmt.Fprintf(w, "\nNOT OK\n  %s\n", strings.Join(r.Reasons, "\n  "))
	}
	_, err := fmt.Fprintf(w, "\nNext: what the operator has decided\n  %s audit list --db %s\n", self(), src.Paste)
	return err
}
