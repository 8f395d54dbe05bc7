// Package sweep is the command once sweep.
package sweep

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/retention"
	"github.com/oncelib/once/retention/archive"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlstore"
)

// Noun is once sweep.
var Noun = cli.Alone(entry, cli.GroupRun)

var entry = cli.Entry{
	Name: "sweep", Brief: "delete operations that have expired",
	Help: `Deletes the rows of operations that have expired by the clock of the database. The command uses small
transactions with pauses, so it hardly slows requests down. A key can be used again as soon as it has expired, even
before the command deletes its row; the deletion only frees space. The command never deletes an operation that is
running, or whose outcome is unknown. Any number of sweepers may run at the same time, also together with the sweepers
of the service.

With --archive the command writes the rows to files before it deletes them. No other sweeper may use the directory DIR:
see "once archive".

Without --every the command ends when it has deleted all expired rows; a cron job runs the command without --every.
With --every the command runs until it is interrupted. The exit code is 1 if some expired rows could not be deleted.`,
	Make: func() cli.Runner { return new(sweep) },
}

type sweep struct {
	db     string
	dir    string
	batch  int
	rate   int
	every  time.Duration
	output cli.Form
}

func (c *sweep) Flags(fs *pflag.FlagSet) {
	cli.DBFlag(fs, &c.db)
	fs.StringVar(&c.dir, "archive", "", "write the rows to files in this `DIR` before they are deleted")
	fs.IntVar(&c.batch, "batch", 0, "delete at most this number of `ROWS` in one transaction (default: 100, or 5000 with --archive)")
	fs.IntVar(&c.rate, "rate", retention.DefaultRate, "delete at most this number of `ROWS` a second")
	fs.DurationVar(&c.every, "every", 0, "sweep repeatedly, with a pause of this `DURATION` between two sweeps")
	c.output.Flag(fs)
}

func (c *sweep) Run(ctx context.Context, m *cli.Env, _ []string) error {
	if c.batch < 0 || c.rate <= 0 || c.every < 0 {
		return cli.Usage("--rate must be greater than zero, and --batch and --every must not be negative", "once sweep --help")
	}
	db, err := cli.OpenDatabase(ctx, c.db, false)
	if err != nil {
		return err
	}
	defer db.Close()
	s, err := sqlstore.New(ctx, db.DB, sqlstore.Config{})
	if err != nil {
		return db.Failed("sweep", err)
	}
	cfg := retention.Config{Batch: c.batch, Rate: c.rate, Every: c.every}
	if c.dir != "" {
		files, err := archive.Open(c.dir)
		if err != nil {
			return err
		}
		defer func() { _ = files.Close() }() // the archived rows are already on the disk
		cfg.Archive = files.Write
	}
	g := passMeter{w: m.Stderr, terminal: cli.IsTerminal(m.Stderr)}
	cfg.Observe = func(p retention.Pass) {
		g.show(p)
		if p.Over {
			c.report(m, db.Source, p)
		}
	}
	sweeper := retention.New(s, cfg)
	if c.every > 0 {
		return sweeper.Run(ctx)
	}
	if _, err := sweeper.Sweep(ctx); err != nil {
		return c.failed(db.Source, err)
	}
	return nil
}

// failed adds advice to an error, unless it is an error of the archive, which has advice already.
func (c *sweep) failed(db cli.Source, err error) error {
	if c.dir != "" && store.KindOf(err) == store.KindOther {
		return fmt.Errorf("%w. The sweep has deleted only rows that are in the archive. Try: check that the disk of %s has room, and that you may write to it", err, c.dir)
	}
	return db.Failed("sweep", err)
}

func (c *sweep) report(m *cli.Env, db cli.Source, p retention.Pass) {
	switch {
	case c.output != cli.Table:
		_ = cli.WriteJSON(m.Stdout, cli.JSONL, operate.PassOf(p)) // JSONL, because passes follow each other without an end
	case p.Err == nil:
		fmt.Fprintf(m.Stdout, "%s deleted from %s in %v.\n", words.Counted(p.Rows, "expired operation was", "expired operations were"), db.Name, p.Took.Round(time.Millisecond))
	case c.every > 0:
		fmt.Fprintf(m.Stderr, "once: %v. The command will try again.\n", c.failed(db, p.Err))
	default:
		fmt.Fprintf(m.Stdout, "%s deleted from %s before the sweep failed.\n", words.Counted(p.Rows, "expired operation was", "expired operations were"), db.Name)
	}
}

// passMeter shows the progress of a pass on a terminal.
type passMeter struct {
	w        io.Writer
	terminal bool
}

func (m passMeter) show(p retention.Pass) {
	switch {
	case !m.terminal:
	case p.Over:
		fmt.Fprint(m.w, "\r\x1b[K")
	default:
		fmt.Fprintf(m.w, "\r%d deleted, %.0f/s\x1b[K", p.Rows, float64(p.Rows)/p.Took.Seconds())
	}
}
