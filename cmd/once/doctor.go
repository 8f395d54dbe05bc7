package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/store/sqlplane"
)

var doctorEntry = cli.Entry{
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

The database does not know whether the service sets once.Config.Synced: use --synced if it
does.

If there is an outbox, its backlog, its relays and what waits for a person are looked at. With
--to the destination is asked for the settings that its promise needs.

If there are inboxes, keys that wait for a message are looked at. With --to nats://HOST:4222 the
consumers on that server that have the names of inboxes of this database are asked for their settings.`,
	Make: func() cli.Runner { return new(doctor) },
}

type doctor struct {
	db, to string
	output cli.Form
	synced bool
}

func (c *doctor) Flags(fs *pflag.FlagSet) {
	cli.DBFlag(fs, &c.db)
	fs.BoolVar(&c.synced, "synced", false, "the service sets once.Config.Synced")
	fs.StringVar(&c.to, "to", "", "`URL` of the broker of the outbox and of the inboxes, to be asked as well: see once relay")
	cli.FromEnv(fs, "to", "ONCE_TO")
	c.output.Flag(fs)
}

func (c *doctor) Run(ctx context.Context, m *cli.Env, _ []string) error {
	p, err := admit(ctx, c.db)
	if err != nil {
		return err
	}
	defer p.close()
	p.synced, p.to = c.synced, c.to
	d, err := p.examine(ctx)
	if err != nil {
		return err
	}
	if c.output != cli.Table {
		err = cli.WriteList(m.Stdout, c.output, d, d.Findings)
	} else {
		d.print(m.Stdout)
	}
	if err == nil && !d.Healthy {
		return cli.ErrSaid
	}
	return err
}

// level is how bad a finding is.
type level string

const (
	okay level = "ok"
	warn level = "warn"
	fail level = "fail"
)

// finding is the answer to one check. The zero value: there is nothing to ask.
type finding struct {
	Check string `json:"check"` // a name for scripts, which does not change
	Level level  `json:"level"`
	Says  string `json:"says"`
	Try   string `json:"try,omitempty"`
}

func fine(format string, args ...any) finding {
	return finding{Level: okay, Says: fmt.Sprintf(format, args...)}
}

func (l level) because(says, try string) finding { return finding{Level: l, Says: says, Try: try} }

// check is one question to a database. An error means that it was not answered.
type check struct {
	name string
	ask  func(context.Context, *patient) (finding, error)
}

// checks of each dialect, in the order in which they are printed.
func checks(d sqlplane.Dialect) []check {
	return slices.Concat(databaseChecks(d), outboxChecks, inboxChecks, deadletterChecks)
}

func databaseChecks(d sqlplane.Dialect) []check {
	switch d {
	case sqlplane.PostgreSQL:
		return postgresChecks
	case sqlplane.SQLite:
		return sqliteChecks
	}
	return mysqlChecks
}

// patient is the database that is examined. What is asked of it writes nothing.
type patient struct {
	*sql.DB
	cli.Source
	synced  bool
	to      string // the broker of the outbox and of the inboxes, "" if it is not to be asked
	exact   bool   // its connections are set up as the service's are
	mariadb bool   // it is not MySQL: set by the check of the version
	pooler  bool   // one is in the way: set by the check of the pooler
	close   func()
}

// diagnosis is what all checks have found. Its JSON form is a contract with scripts.
type diagnosis struct {
	Database string    `json:"database"`
	Dialect  string    `json:"dialect"`
	Healthy  bool      `json:"healthy"` // nothing fails
	Warnings int       `json:"warnings"`
	Failures int       `json:"failures"`
	Findings []finding `json:"findings"`
}

// askPatience bounds one check: counting rows may take long.
const askPatience = 10 * time.Second

// examine asks everything. A question that one may not ask is a warning; a database
// that has gone away meanwhile is an error.
func (p *patient) examine(ctx context.Context) (diagnosis, error) {
	d := diagnosis{Database: p.Name, Dialect: string(p.Dialect), Findings: []finding{}}
	for _, c := range checks(p.Dialect) {
		f, err := func() (finding, error) {
			ctx, cancel := context.WithTimeout(ctx, askPatience)
			defer cancel()
			return c.ask(ctx, p)
		}()
		if cli.IsMissingTable(err) {
			continue // which is the finding of another check
		}
		if err != nil {
			what, try := cli.Advice(err.Error())
			f = warn.because("not known: "+what, cli.Either(try != "", try, "the user of the service, or one who may read more"))
		}
		f.Check = c.name
		switch f.Level {
		case "":
			continue
		case warn:
			d.Warnings++
		case fail:
			d.Failures++
		case okay:
		}
		d.Findings = append(d.Findings, f)
	}
	d.Healthy = d.Failures == 0
	if err := p.PingContext(ctx); err != nil {
		return d, p.Failed("examine", err)
	}
	return d, nil
}

func (d diagnosis) print(w io.Writer) {
	for _, f := range d.Findings {
		fmt.Fprintf(w, "%-5s %-19s %s\n", f.Level, f.Check, f.Says)
		if f.Try != "" {
			fmt.Fprintf(w, "%25s Try: %s\n", "", f.Try)
		}
	}
	fmt.Fprintf(w, "\n%s: %d checks, %d warnings, %d failures.\n", d.Database, len(d.Findings), d.Warnings, d.Failures)
}

// text is one value that the database answers with.
func (p *patient) text(ctx context.Context, query string) (s string, err error) {
	err = p.QueryRowContext(ctx, query).Scan(&s)
	return s, err
}
