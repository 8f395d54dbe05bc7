package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	mrand "math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/cmd/once/internal/killstorm"
	"github.com/oncelib/once/store/sqlplane"
)

var demoEntry = cli.Entry{
	Name: "demo", Brief: "kill a payments service under fire, then count the money",
	Help: `Starts the payments service as a process of its own and sends it refunds from clients
that retry, and are processes of their own, too. On the way answers are lost, requests
are doubled or cut off, keys are used again for another amount, and the service is killed
(SIGKILL) at least five times and started again on the same database. So are the clients,
in the middle of their requests, which they resume from their journals.

When the last process is dead, the refunds are counted in the database. The exit code
is 0 only if every refund took effect exactly once and every replay was the same, byte
for byte. With --unsafe the same storm meets the same service without once.`,
	Make: func() cli.Runner { return new(demo) },
}

type demo struct {
	ops    int
	db     string
	seed   uint64
	log    string
	json   bool
	unsafe bool

	metrics bool
}

func (c *demo) Flags(fs *pflag.FlagSet) {
	fs.IntVar(&c.ops, "ops", 500, "how `MANY` refunds")
	fs.StringVar(&c.db, "db", "", cli.DBUsage+" (default: a new SQLite file)")
	cli.OnCommandLine(fs, "db")
	fs.Uint64Var(&c.seed, "seed", 0, "`NUMBER` that decides what is thrown at which refund (default: a new one)")
	fs.StringVar(&c.log, "log", "", "`FOLDER` for client_retries.csv, outcomes.csv and server.log")
	fs.BoolVar(&c.json, "json", false, "print the result as one JSON object")
	fs.BoolVar(&c.unsafe, "unsafe", false, "leave once out, to see what it is for")
	fs.BoolVar(&c.metrics, "metrics", false, "compare what the instruments of the service count with what the database holds")
}

const (
	clients    = 16
	processes  = 4 // that the clients are in
	leastKills = 5
	mostOps    = 1_000_000
)

func (c *demo) Run(ctx context.Context, m *cli.Env, _ []string) (err error) {
	switch {
	case c.ops < 1 || c.ops > mostOps:
		return cli.Usage(fmt.Sprintf("--ops %d makes no storm", c.ops), "--ops 500")
	case c.metrics && c.unsafe:
		return cli.Usage("--unsafe leaves out what --metrics reads", "--metrics without --unsafe")
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
	cfg := killstorm.Config{
		Orders: c.ops, Clients: clients, Kills: leastKills + c.ops/100, Seed: c.seed, Unsafe: c.unsafe,
		Tenant:      "demo-" + strings.ToLower(rand.Text())[:8],
		ClientKills: leastKills + c.ops/100,
	}
	if cfg.Witness, err = witness(ctx, src, cfg.Tenant); err != nil {
		return err
	}
	defer cfg.Witness.DB.Close()
	if cfg.Server, cfg.Metrics, err = c.server(ctx, src, cfg.Tenant); err != nil {
		return err
	}
	if cfg.Fleet, err = c.fleet(cfg.Tenant); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(cfg.Fleet.Dir)) }()
	if c.log != "" {
		if cfg.Log, err = killstorm.OpenLog(c.log); err != nil {
			return fmt.Errorf("%w. Try: --log with a folder that can be written", err)
		}
		cfg.Server.Log = cfg.Log.Server
	}
	meter := newMeter(m.Stderr)
	cfg.Progress = meter.show
	r, err := killstorm.Run(ctx, cfg)
	meter.end()
	if end := cfg.Log.Close(); err == nil {
		err = end
	}
	if err != nil {
		return fmt.Errorf("%w. Try: once demo --log storm, then read storm/server.log", err)
	}
	if c.json {
		if c.db == "" && r.OK {
			err = os.RemoveAll(filepath.Dir(src.Path)) // scripts do not want to look into it
		}
		err = errors.Join(err, json.NewEncoder(m.Stdout).Encode(r))
	} else {
		err = c.print(m.Stdout, r, src, cfg)
	}
	if err == nil && !r.OK {
		return cli.ErrSaid
	}
	return err
}

// server is this program once more, as "once demo serve", and the address of its /metrics if these are asked for.
func (c *demo) server(ctx context.Context, src demoDB, session string) (_ *killstorm.Server, metrics string, err error) {
	self, err := os.Executable()
	if err == nil && c.metrics {
		metrics, err = killstorm.FreeAddress(ctx)
	}
	if err != nil {
		return nil, "", err
	}
	args := []string{"demo", "serve", "--db", withSession(src, session), "--metrics", metrics}
	if c.unsafe {
		args = append(args, "--unsafe")
	}
	return &killstorm.Server{Command: func(address string) *exec.Cmd {
		return exec.Command(self, append(args, "--listen", address)...) //nolint:noctx // the storm ends it
	}}, metrics, nil
}

// fleet is this program several times more, as "once demo client".
func (c *demo) fleet(tenant string) (*killstorm.Fleet, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "once-demo-clients-")
	if err != nil {
		return nil, err
	}
	return &killstorm.Fleet{Processes: processes, Dir: dir, Command: func(address, journal string) *exec.Cmd {
		return exec.Command(self, "demo", "client", "--server", address, "--file", journal, "--tenant", tenant, "--seed", strconv.FormatUint(c.seed, 10)) //nolint:noctx // the storm ends it
	}}, nil
}

// withSession names the sessions of the service in PostgreSQL, so that the witness
// can see the last of them end. In SQLite they end with the process.
func withSession(src demoDB, name string) string {
	u, err := url.Parse(src.url)
	if src.Dialect != sqlplane.PostgreSQL || err != nil {
		return src.url
	}
	q := u.Query()
	q.Set("application_name", name)
	u.RawQuery = q.Encode()
	return u.String()
}

// witness has a connection of its own, by the plain driver.
func witness(ctx context.Context, src demoDB, session string) (killstorm.Witness, error) {
	db, err := sql.Open(src.Driver, src.DSN)
	if err != nil {
		return killstorm.Witness{}, err
	}
	w := killstorm.Witness{DB: db}
	switch src.Dialect {
	case sqlplane.MySQL:
		if err := db.PingContext(ctx); err != nil {
			return w, errors.Join(src.Failed("open", err), db.Close())
		}
		db.SetMaxOpenConns(1) // all others are the service's
		w.Question = true
		w.Quiet = func(ctx context.Context) (n int, err error) {
			err = db.QueryRowContext(ctx, "select count(*) from information_schema.processlist where db = database() and id <> connection_id()").Scan(&n)
			return n, err
		}
	case sqlplane.PostgreSQL:
		if err := db.PingContext(ctx); err != nil {
			return w, errors.Join(src.Failed("open", err), db.Close())
		}
		w.Quiet = func(ctx context.Context) (n int, err error) {
			err = db.QueryRowContext(ctx, "select count(*) from pg_stat_activity where application_name = $1", session).Scan(&n)
			return n, err
		}
	}
	return w, nil
}

func number(n int) string { return strconv.Itoa(n) }
