package main

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/store/sqlplane"
)

var auditListEntry = cli.Entry{
	Name: "audit list", Brief: "who has forgotten what, and who has looked",
	Help: `Lists what operators have done to stored operations, and who has looked at them with keys
list or keys show, the newest first. Keys are shown as hashes; once keys show KEY has what
was done to one key.`,
	Make: func() cli.Runner { return new(auditList) },
}

// looked writes to the audit that somebody has looked. Who may only read can look all the
// same; so can whoever looks because the database is stuck.
func looked(ctx context.Context, m *cli.Env, db *operations, who string, l operate.Access) {
	const patience = 2 * time.Second
	by := operate.By{Who: cli.Either(who != "", who, "unknown")}
	bound, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var err error
	if db.Dialect == sqlplane.SQLite { // which does not hear that while it waits for the file
		db.SetMaxOpenConns(1)
		_, err = db.ExecContext(bound, "pragma busy_timeout = 1000")
	}
	if err == nil {
		err = db.Keys.Looked(bound, by, l)
	}
	if err == nil {
		return
	}
	try := "a user who may insert into once_audit"
	if cli.IsMissingTable(err) {
		try = "once migrate up --db " + db.Paste
	}
	fmt.Fprintf(m.Stderr, "once: your look-up could not be written to the audit: %v\nTry: %s\n", err, try)
}

type auditList struct {
	db     string
	filter operate.AuditFilter
	output cli.Form
}

func (c *auditList) Flags(fs *pflag.FlagSet) {
	cli.DBFlag(fs, &c.db)
	fs.StringVar(&c.filter.Scope, "scope", "", "only in this `SCOPE`")
	cli.WindowFlags(fs, &c.filter.Window)
	c.output.Flag(fs)
}

func (c *auditList) Run(ctx context.Context, m *cli.Env, _ []string) error {
	if err := cli.CheckLimit(c.filter.Limit); err != nil {
		return err
	}
	db, err := openOperations(ctx, m, c.db)
	if err != nil {
		return err
	}
	defer db.Close()
	p, err := db.Keys.Audit(ctx, c.filter)
	if err != nil {
		return db.Failed("read", err)
	}
	if c.output != cli.Table {
		return cli.WritePage(m.Stdout, c.output, p)
	}
	if len(p.Items) == 0 {
		return m.Empty("such entries")
	}
	t := tabwriter.NewWriter(m.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "ID\tAT\tWHO\tACTION\tSCOPE\tKEY HASH\tREASON\tDETAIL\n")
	for _, e := range p.Items {
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", e.ID, e.At.Format(cli.Milliseconds), cli.Shown(e.Who), e.Action, cli.Shown(e.Scope), e.KeyHash, cli.Shown(e.Reason), cli.Shown(e.Detail))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return m.More(p.Next)
}
