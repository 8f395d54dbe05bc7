// Package audit is the command once audit list: what operators have done.
package audit

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/operate"
)

// Noun is once audit.
var Noun = cli.Noun{Name: "audit", Brief: "the record of the changes and reads of operators", Group: cli.GroupOperate, Entries: []cli.Entry{listEntry}}

var listEntry = cli.Entry{
	Name: "audit list", Brief: "list the operators who have changed, erased or read operations",
	Help: `Lists the changes of operators in this database, the newest change first. With --reads the list also shows the operators
who have read operations with "once keys list", "once keys show", "once keys export" or the console. The command prints
keys as hashes. To see the actions of operators on one key, run "once keys show KEY".`,
	Make: func() cli.Runner { return new(list) },
}

type list struct {
	db     string
	reads  bool
	filter operate.AuditFilter
	output cli.Form
}

func (c *list) Flags(fs *pflag.FlagSet) {
	cli.DBFlag(fs, &c.db)
	fs.StringVar(&c.filter.Scope, "scope", "", "list only actions on keys of this `SCOPE`")
	fs.BoolVar(&c.reads, "reads", false, "also list the operators who have read operations")
	cli.WindowFlags(fs, &c.filter.Window)
	c.output.Flag(fs)
}

func (c *list) Run(ctx context.Context, m *cli.Env, _ []string) error {
	if err := cli.CheckLimit(c.filter.Limit); err != nil {
		return err
	}
	db, err := m.Open(ctx, c.db, operate.Config{})
	if err != nil {
		return err
	}
	defer db.Close()
	// Each look at a key is an entry, and so many entries would hide the few changes.
	c.filter.Changes = !c.reads
	p, err := db.Keys.Audit(ctx, c.filter)
	if err != nil {
		return db.Failed("read", err)
	}
	return cli.ShowPage(m, c.output, p, words.Either(c.filter.Scope+c.filter.After == "", "entries", "entries that match the flags")+words.Either(c.reads, "", "; --reads lists the reads too"), printList)
}

func printList(w io.Writer, list []operate.Entry) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "ID\tAT\tWHO\tACTION\tSCOPE\tKEY HASH\tREASON\tDETAIL\n")
	for _, e := range list {
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", e.ID, e.At.Format(cli.Milliseconds), words.Shown(e.Who), e.Action, words.Shown(e.Scope), e.KeyHash, words.Shown(e.Reason), words.Shown(e.Detail))
	}
	return t.Flush()
}
