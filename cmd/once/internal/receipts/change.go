package receipts

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/gateway"
	"github.com/oncelib/once/gateway/receipt"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/retention/archive"
	"github.com/oncelib/once/store/sqlplane"
)

var sweepEntry = cli.Entry{
	Name: "receipts sweep", Brief: "delete receipts and tombstones that are older than their retention",
	Help: `Deletes old receipts and tombstones in small transactions with pauses. A receipt is the record that a service commits
with an operation of a gateway; a tombstone is a record that makes the service refuse an operation that arrives later.
--retain must be at least the retention of the keys of the gateway: if the receipt of an operation is deleted and a
request with its key arrives later, the operation is executed again. If the gateway has the setting "store: receipt",
the gateway remembers a key only as long as its receipt exists.

With --archive the command writes the rows to files before it deletes them. No other sweeper may use the directory DIR:
see "once archive".

Without --yes nothing is deleted.`,
	Make: func() cli.Runner { return new(sweep) },
}

type sweep struct {
	db     string
	retain time.Duration
	dir    string
	yes    bool
	output cli.Form
}

// defaultRetain is longer than the retention of most keys: a longer retention costs only space.
const defaultRetain = gateway.DefaultReceiptsKept

func (c *sweep) Flags(fs *pflag.FlagSet) {
	cli.DBFlag(fs, &c.db)
	fs.DurationVar(&c.retain, "retain", defaultRetain, "delete only rows that are older than this `DURATION` (at least 1h)")
	fs.StringVar(&c.dir, "archive", "", "write the rows to files in this `DIR` before they are deleted")
	cli.YesFlag(fs, &c.yes)
	c.output.Flag(fs)
}

// swept is the result of a sweep, or of its preview, as JSON.
type swept struct {
	Rows    int64 `json:"rows"`
	Changed bool  `json:"changed"` // false for a preview
}

func (c *sweep) Run(ctx context.Context, m *cli.Env, _ []string) error {
	var cfg receipt.Config
	if c.dir != "" && c.yes {
		files, err := archive.Open(c.dir)
		if err != nil {
			return err
		}
		defer func() { _ = files.Close() }() // the archived rows are already on the disk
		cfg.Archive = files.Write
	}
	db, t, err := open(ctx, m, c.db, cfg)
	if err != nil {
		return err
	}
	defer db.Close()
	do, what := t.Count, "would delete: %s older than %v\n"
	if c.yes {
		do, what = t.Sweep, "deleted: %s older than %v\n"
	}
	rows, err := do(ctx, c.retain)
	if err != nil {
		return refused(db, "sweep", err)
	}
	if c.output != cli.Table {
		err = cli.WriteJSON(m.Stdout, c.output, swept{rows, c.yes})
	} else {
		_, err = fmt.Fprintf(m.Stdout, what, words.Count(int(rows), "receipt"), c.retain)
	}
	if err == nil && !c.yes {
		err = m.Preview("--yes")
	}
	return err
}

var forgetEntry = cli.Entry{
	Quick: true, Name: "receipts forget", Args: "OPERATION", Brief: "erase the response that a service has stored for an operation",
	Help: `Erases the header and the body of the response in a receipt. The fingerprint and the status of the operation stay in
the receipt, so the operation is not executed again. To erase the response that the gateway has stored, run "once keys
forget".

Without --yes nothing is changed.`,
	Make: func() cli.Runner { return new(forget) },
}

type forget struct {
	db  string
	yes bool
}

func (c *forget) Flags(fs *pflag.FlagSet) {
	cli.DBFlag(fs, &c.db)
	cli.YesFlag(fs, &c.yes)
}

func (c *forget) Run(ctx context.Context, m *cli.Env, args []string) error {
	if len(args) == 0 || args[0] == "" {
		return cli.Usage("the OPERATION is missing", "once receipts forget OPERATION --db URL")
	}
	db, t, err := open(ctx, m, c.db, receipt.Config{})
	if err != nil {
		return err
	}
	defer db.Close()
	var found bool
	if c.yes {
		found, err = t.Forget(ctx, args[0])
	} else {
		_, found, err = t.Get(ctx, args[0])
	}
	switch {
	case err != nil:
		return refused(db, "change", err)
	case !found:
		return missing(db, args[0])
	}
	if _, err := fmt.Fprintf(m.Stdout, "%s: header and body of %s\n", words.Either(c.yes, "forgotten", "would forget"), args[0]); err != nil || c.yes {
		return err
	}
	return m.Preview("--yes")
}

var ddlEntry = cli.Entry{
	Quick: true, Name: "receipts ddl", Brief: "print the SQL statements that create the table of receipts, for your own migrations",
	Help: `Prints the SQL statements that create the table once_receipt in the database of a service. To execute these
statements, run "once migrate up --only receipt".`,
	Make: func() cli.Runner { return new(ddl) },
}

type ddl struct{ dialect string }

func (c *ddl) Flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.dialect, "dialect", "", "the SQL `DIALECT`: postgres, sqlite, or mysql, also for MariaDB (required)")
}

func (c *ddl) Run(_ context.Context, m *cli.Env, _ []string) error {
	text, err := receipt.DDL(sqlplane.Dialect(c.dialect))
	if err != nil {
		return cli.Usage(words.Either(c.dialect == "", "--dialect is missing", fmt.Sprintf("the dialect %q does not exist", c.dialect)), "once receipts ddl --dialect postgres, sqlite or mysql")
	}
	_, err = fmt.Fprint(m.Stdout, text)
	return err
}
