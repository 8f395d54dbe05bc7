// Package doctor is the command once doctor. The checks are in package operate/doctor.
package doctor

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/operate/doctor"
)

// Noun is once doctor.
var Noun = cli.Alone(entry, cli.GroupSetUp)

var entry = cli.Entry{
	Name: "doctor", Brief: "what in a database's settings would break a promise",
	Help: `Checks the settings of a database. Each check prints ok, warn or fail, and what to try.
Nothing is changed, except what a data source name itself sets when it is opened.

fail means that a promise of once does not hold on this database, or that once cannot
work with it; the exit code is then 1. warn means that a failure may take longer to be
noticed, or that something costs more than necessary; the exit code stays 0.

A setting can belong to a role, a database or a connection: use the URL of the service,
with its user. For SQLite use the data source name that the service opens, such as
--db 'file:app.db?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)': with sqlite:PATH
the settings of the service's connections cannot be seen.

redis://HOST:6379 is a server of redisstore: the checks ask whether it can work, and which data it may lose.

The database does not know whether the service sets once.Config.Synced: use --synced if it
does.

If the database has an outbox, the doctor examines its backlog, its relays and the messages that wait for a
person. With --to it also examines the settings of the destination that the outbox needs.

If the database has inboxes, the doctor examines keys that wait for a message. With --to nats://HOST:4222 or
redis://HOST:6379 it also examines the consumers (groups) on that server that have the names of inboxes of this
database: their settings, and the messages that they have missed.

With --after-restore 2026-11-27T06:00:00Z the database was restored from a backup of that moment. Other services,
brokers and clients were not. Instead of all other checks, the doctor finds the rows that a person must look at again:
their number, the first of them, and what to do. Run it before the service starts. See docs/restore.md.`,
	Make: func() cli.Runner { return new(command) },
}

type command struct {
	db, to string
	output cli.Form
	synced bool

	restored string
}

func (c *command) Flags(fs *pflag.FlagSet) {
	cli.DBFlag(fs, &c.db)
	fs.BoolVar(&c.synced, "synced", false, "the service sets once.Config.Synced")
	fs.StringVar(&c.to, "to", "", "`URL` of the broker of the outbox and of the inboxes, to be asked as well: see once relay")
	cli.FromEnv(fs, "to", "ONCE_TO")
	fs.StringVar(&c.restored, "after-restore", "", "the `TIME` of the backup from which the database was restored: what to look at again")
	c.output.Flag(fs)
}

func (c *command) Run(ctx context.Context, m *cli.Env, _ []string) error {
	r, err := c.examine(ctx)
	if err != nil {
		return err
	}
	if c.output != cli.Table {
		err = cli.WriteList(m.Stdout, c.output, r, r.Findings)
	} else {
		printReport(m.Stdout, r)
	}
	if err == nil && !r.Healthy {
		return cli.ErrSaid
	}
	return err
}

func (c *command) examine(ctx context.Context) (doctor.Report, error) {
	var restored time.Time
	if c.restored != "" {
		var err error
		if restored, err = time.Parse(time.RFC3339, c.restored); err != nil {
			return doctor.Report{}, cli.Usage(fmt.Sprintf("--after-restore %s is not a time", words.Quoted(c.restored)), "--after-restore 2026-11-27T06:00:00Z")
		}
		if isRedis(c.db) {
			return doctor.Report{}, cli.Usage("--after-restore is for databases with SQL", "docs/restore.md")
		}
	}
	if isRedis(c.db) {
		return examineRedis(ctx, c.db)
	}
	db, err := Open(ctx, c.db)
	if err != nil {
		return doctor.Report{}, err
	}
	defer db.Close()
	cfg := db.Config(c.to)
	cfg.Synced, cfg.RestoredTo = c.synced, restored
	r, err := doctor.Examine(ctx, cfg)
	if err != nil {
		return r, db.Failed("examine", err)
	}
	return r, nil
}

func printReport(w io.Writer, r doctor.Report) {
	for _, f := range r.Findings {
		fmt.Fprintf(w, "%-5s %-19s %s\n", f.Verdict, f.Check, f.Says)
		if len(f.First) > 0 {
			fmt.Fprintf(w, "%25s first: %s\n", "", strings.Join(f.First, ", "))
		}
		if f.Try != "" {
			fmt.Fprintf(w, "%25s Try: %s\n", "", f.Try)
		}
	}
	fmt.Fprintf(w, "\n%s: %d checks, %d warnings, %d failures.\n", r.Database, len(r.Findings), r.Warnings, r.Failures)
}
