package main

import (
	"context"
	"flag"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/oncelib/once/admin"
	"github.com/oncelib/once/store"
)

var auditListEntry = entry{
	name: "audit list", brief: "who has forgotten what, and who has looked",
	help: `Lists what operators have done to stored operations, and who has looked at them with keys
list or keys show, the newest first. Keys are shown as hashes; once keys show KEY has what
was done to one key.`,
	make: func() command { return new(auditList) },
}

// looked writes to the audit that somebody has looked. Who may only read can look all the
// same; so can whoever looks because the database is stuck.
func (m *Main) looked(ctx context.Context, db *operations, l admin.Access) {
	const patience = 2 * time.Second
	l.Who = either(l.Who != "", l.Who, "unknown")
	bound, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var err error
	if db.dialect == store.SQLite { // which does not hear that while it waits for the file
		db.SetMaxOpenConns(1)
		_, err = db.ExecContext(bound, "pragma busy_timeout = 1000")
	}
	if err == nil {
		err = db.admin.RecordAccess(bound, l)
	}
	if err == nil {
		return
	}
	try := "a user who may insert into once_audit"
	if isMissingTable(err) {
		try = "once migrate up --db " + db.paste
	}
	fmt.Fprintf(m.Stderr, "once: your look-up could not be written to the audit: %v\nTry: %s\n", err, try)
}

type auditList struct {
	db, scope, output string
	limit             int
	before            int64
}

func (c *auditList) flags(fs *flag.FlagSet) {
	fs.StringVar(&c.db, "db", "", dbUsage)
	fs.StringVar(&c.scope, "scope", "", "only in this `SCOPE`")
	fs.IntVar(&c.limit, "limit", admin.DefaultLimit, "at most `N`")
	fs.Int64Var(&c.before, "before", 0, "only older ones than the entry `ID`")
	fs.StringVar(&c.output, "o", "table", "`FORM` of the output: table or json")
}

func (c *auditList) run(ctx context.Context, m *Main, _ []string) error {
	if err := checkList(c.output, c.limit); err != nil {
		return err
	}
	db, err := m.openOperations(ctx, c.db)
	if err != nil {
		return err
	}
	defer db.Close()
	list, err := db.admin.Audit(ctx, c.scope, c.before, c.limit)
	if err != nil {
		return db.failed("read", err)
	}
	if c.output == "json" {
		return writeJSON(m.Stdout, append([]admin.Entry{}, list...))
	}
	t := tabwriter.NewWriter(m.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "ID\tAT\tWHO\tACTION\tSCOPE\tKEY HASH\tREASON\tDETAIL\n")
	for _, e := range list {
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", e.ID, e.At.Format(milliseconds), shown(e.Who), e.Action, shown(e.Scope), e.KeyHash, shown(e.Reason), shown(e.Detail))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if n := len(list); n == c.limit {
		fmt.Fprintf(m.Stderr, "There may be more. Try: the same with --before %d\n", list[n-1].ID)
	}
	return nil
}
