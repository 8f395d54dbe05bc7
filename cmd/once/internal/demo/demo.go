// Package demo has the commands of once demo, which kill a service under load and count the effects. Its hidden commands are the processes of a demo.
package demo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/cmd/once/internal/killstorm"
	"github.com/oncelib/once/store/sqlplane"
)

// Noun is once demo.
var Noun = cli.Noun{
	Name: "demo", Brief: demoEntry.Brief, Group: cli.GroupTry,
	Entries: []cli.Entry{demoEntry, serveEntry, clientEntry, eventsEntry, providerEntry, provideEntry, chargeEntry, transferEntry, bankEntry, clearEntry,
		webhooksEntry, sendEntry, hookEntry, gatewayEntry, shopEntry,
	},
}

var demoEntry = cli.Entry{
	Name: "demo", Brief: "kill a payments service under load, then count the money",
	Help: `Starts the payments service as a separate process. Clients, which are separate processes too, send refunds to
the service and retry them. Meanwhile the demo loses responses, duplicates requests, cuts requests off, and reuses
keys for other amounts. At least five times the demo kills the service (SIGKILL) and starts the service again on the
same database. The demo also kills clients in the middle of their requests; a client that is started again resumes its
requests from its journal.

When the last process has ended, the demo counts the refunds in the database. The exit code is 0 only if every refund
took effect exactly once and every replayed response was equal to the first response, byte for byte. With --unsafe the
service runs without the library "once".`,
	Make: func() cli.Runner { return new(demo) },
}

type demo struct {
	frame

	unsafe, metrics bool
}

func (c *demo) Flags(fs *pflag.FlagSet) {
	c.flags(fs, 500, "the `NUMBER` of refunds that the clients make", "seed: the `NUMBER` that decides which fault happens to which refund", "`FOLDER` for client_retries.csv, outcomes.csv and server.log")
	fs.BoolVar(&c.unsafe, "unsafe", false, "run the service without the library \"once\", to see the difference")
	fs.BoolVar(&c.metrics, "metrics", false, "also compare the metrics of the service with the rows of the database")
}

const (
	clients    = 16
	processes  = 4 // of the clients
	leastKills = 5
)

func (c *demo) Run(ctx context.Context, m *cli.Env, _ []string) error {
	if err := c.check(1, 500); err != nil {
		return err
	}
	if c.metrics && c.unsafe {
		return cli.Usage("--unsafe runs the service without the library \"once\", so the service has no metrics that --metrics could read", "--metrics without --unsafe")
	}
	return c.run(m, "once demo --log storm, then read storm/server.log", func(src database, progress func(killstorm.Progress)) (outcome, error) {
		return c.storm(ctx, src, progress)
	})
}

func (c *demo) storm(ctx context.Context, src database, progress func(killstorm.Progress)) (o outcome, err error) {
	cfg := killstorm.Config{
		Orders: c.ops, Clients: clients, Kills: leastKills + c.ops/100, ClientKills: leastKills + c.ops/100, Seed: c.seed, Unsafe: c.unsafe,
		Tenant: session(), Progress: progress,
	}
	if cfg.Witness, err = witness(ctx, src, cfg.Tenant); err != nil {
		return o, err
	}
	defer cfg.Witness.DB.Close()
	if cfg.Server, cfg.Metrics, err = c.service(ctx, src, cfg.Tenant); err != nil {
		return o, err
	}
	if cfg.Fleet, err = c.fleet(cfg.Tenant); err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(cfg.Fleet.Dir)) }()
	if c.log != "" {
		if cfg.Log, err = killstorm.OpenLog(c.log); err != nil {
			return o, fmt.Errorf("%w. Try: use --log with a writable folder", err)
		}
		cfg.Server.Log = cfg.Log.Server
	}
	r, err := killstorm.Run(ctx, cfg)
	if end := cfg.Log.Close(); err == nil {
		err = end
	}
	return outcome{r, r.OK, func(w io.Writer) error { return c.print(w, r, src, cfg) }}, err
}

// service returns the server, which is this program in another process, as "once demo serve". metrics is the address of its /metrics, or "".
func (c *demo) service(ctx context.Context, src database, session string) (server *killstorm.Server, metrics string, err error) {
	if c.metrics {
		if metrics, err = killstorm.FreeAddress(ctx); err != nil {
			return nil, "", err
		}
	}
	return c.server(func() []string {
		args := []string{"demo", "serve", "--db", withSession(src, session), "--alone", "--metrics", metrics}
		if c.unsafe {
			args = append(args, "--unsafe")
		}
		return args
	}), metrics, nil
}

// fleet returns further processes of this program, which run "once demo client".
func (c *demo) fleet(tenant string) (*killstorm.Fleet, error) {
	dir, err := os.MkdirTemp("", "once-demo-clients-")
	if err != nil {
		return nil, err
	}
	return &killstorm.Fleet{Processes: processes, Dir: dir, Command: func(address, journal string) *exec.Cmd {
		return exec.Command(c.self, "demo", "client", "--server", address, "--file", journal, "--tenant", tenant, "--seed", strconv.FormatUint(c.seed, 10)) //nolint:noctx // the storm ends it
	}}, nil
}

// withSession names the sessions of the service in PostgreSQL, so that the witness can see when the last of them ends. In SQLite they end with the
// process.
func withSession(src database, name string) string {
	u, err := url.Parse(src.url)
	if src.Dialect != sqlplane.PostgreSQL || err != nil {
		return src.url
	}
	q := u.Query()
	q.Set("application_name", name)
	u.RawQuery = q.Encode()
	return u.String()
}

// witness opens a connection of its own, with the plain driver.
func witness(ctx context.Context, src database, session string) (killstorm.Witness, error) {
	db, err := sql.Open(src.Driver, src.DSN)
	if err != nil {
		return killstorm.Witness{}, err
	}
	w := killstorm.Witness{DB: db, Tables: "select name from sqlite_master where type = 'table'"}
	switch src.Dialect {
	case sqlplane.MySQL:
		if err := db.PingContext(ctx); err != nil {
			return w, errors.Join(src.Failed("open", err), db.Close())
		}
		db.SetMaxOpenConns(1) // all other connections belong to the service
		w.Question, w.Tables = true, "select table_name from information_schema.tables where table_schema = database()"
		w.Quiet = func(ctx context.Context) (n int, err error) {
			err = db.QueryRowContext(ctx, "select count(*) from information_schema.processlist where db = database() and id <> connection_id()").Scan(&n)
			return n, err
		}
	case sqlplane.PostgreSQL:
		if err := db.PingContext(ctx); err != nil {
			return w, errors.Join(src.Failed("open", err), db.Close())
		}
		w.Tables = "select table_name from information_schema.tables where table_schema = current_schema()"
		w.Quiet = func(ctx context.Context) (n int, err error) {
			err = db.QueryRowContext(ctx, "select count(*) from pg_stat_activity where application_name = $1", session).Scan(&n)
			return n, err
		}
	}
	return w, nil
}
