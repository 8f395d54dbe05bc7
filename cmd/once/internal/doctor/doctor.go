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
	Name: "doctor", Brief: "check whether the settings of a database break a promise of the library",
	Help: `Checks the settings of a database. For each check the command prints ok, warn or fail, and what to try. The command
changes nothing, except that the database driver applies the settings in the data source name.

fail means that a promise of the library does not hold on this database, or that the library cannot work with this
database; the exit code is then 1. warn means that a failure may be noticed later than necessary, or that an operation
costs more than necessary; the exit code is still 0. With --strict the exit code is 1 also after a warn, for example to
stop a deployment.

A setting can belong to a role, a database or a connection. So give --db the same URL, with the same user, as the
service. For SQLite, give the data source name with which the service opens the file, such as --db
'file:app.db?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)'. With sqlite:PATH the doctor cannot see the settings
of the connections of the service.

With redis://HOST:6379 the doctor checks a Redis server that the service uses with redisstore: whether the server can
work as a store, and which data it may lose.

The database does not show whether the service sets once.Config.Synced. If the service sets once.Config.Synced, use
--synced.

If the database has an outbox, the doctor examines the backlog of the outbox, its relays, and the messages that wait for
the decision of an operator. With --to the doctor also examines the settings of the message broker, or other
destination, to which the outbox delivers. The doctor knows the topics that have had a message with a key. With --topic
you name other topics, for example a topic that has had no message yet.

If the database has inboxes, the doctor examines keys that wait for a message. With --to nats://HOST:4222 or
redis://HOST:6379 the doctor also examines each consumer (in Redis: consumer group) of that server that has the name of
an inbox of this database. The doctor checks the settings of the consumer, and looks for messages that the consumer has
missed.

Use --after-restore 2026-11-27T06:00:00Z if the database was restored from a backup of that time, and other services,
brokers and clients were not restored. With --after-restore the doctor makes only one check: it looks for the rows that
an operator must compare with the other services. The doctor prints the number of rows to compare, some examples, and
the next steps of the operator. Run the doctor with --after-restore before the service starts. See docs/restore.md.`,
	Make: func() cli.Runner { return new(command) },
}

type command struct {
	db, to string
	output cli.Form
	synced bool
	strict bool
	topics []string

	restored string
}

func (c *command) Flags(fs *pflag.FlagSet) {
	cli.DBFlag(fs, &c.db)
	fs.BoolVar(&c.synced, "synced", false, "check the database for a service that sets once.Config.Synced")
	fs.StringVar(&c.to, "to", "", "also check the message broker of the outbox and the inboxes at this `URL`; \"once relay --help\" lists the forms of URLs")
	cli.FromEnv(fs, "to", "ONCE_TO")
	fs.StringSliceVar(&c.topics, "topic", nil, "with --to: also check the broker for the topic `NAME`, to which the outbox has sent no message yet; several names are possible")
	fs.BoolVar(&c.strict, "strict", false, "also exit with code 1 if a check prints warn")
	fs.StringVar(&c.restored, "after-restore", "", "the `TIME` of the backup from which the database was restored: find the rows that an operator must check again")
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
	if err == nil && (!r.Healthy || c.strict && r.Warnings > 0) {
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
			return doctor.Report{}, cli.Usage("--after-restore needs a database with SQL", "read docs/restore.md")
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
	cfg.Synced, cfg.RestoredTo, cfg.Topics = c.synced, restored, c.topics
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
