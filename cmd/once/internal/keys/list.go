package keys

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/operate"
)

var listEntry = cli.Entry{
	Name: "keys list", Brief: "list operations, sorted by scope and key",
	Help: `Lists operations, sorted by scope and key, without requests and results. The command records in the audit that you
have read the list, if the database user may write to the audit. "once audit list --reads" shows this record.

` + runningMeans + `.

The list is sorted by scope and key, not by time: in this order the database can read the next page by an index. To see
only recent operations, give --since, such as --since 1h.

If there are more operations than --limit, the command prints the command line for the next page to standard error; in
JSON, "next" is the value for --after. --since and --before choose operations by the time at which the operations
began. The value of these flags is a time (2026-01-31T12:00:00Z) or a duration before now (90m, 72h) by the clock of
the database.

--hash finds a key by its hash. Log lines contain this hash as idempotency_key or key_hash. The database has no index
for this hash, so the command reads all operations that match the other flags: give --scope, and --since if you can.`,
	Make: func() cli.Runner { return new(list) },
}

// runningMeans explains to operators why a handler that is working now may not be in the list.
const runningMeans = "The state running means that the operation has a lease. An operation without a lease is in the list only after the commit of this operation"

type list struct {
	db, who, hash string
	output        cli.Form
	between       cli.Between
	filter        operate.KeyFilter
}

func (c *list) Flags(fs *pflag.FlagSet) {
	cli.DBFlag(fs, &c.db)
	fs.StringVar(&c.filter.State, "state", "", "list only operations in this `STATE`: running, waiting, done, unknown or expired")
	fs.StringVar(&c.filter.Scope, "scope", "", "list only operations in this `SCOPE`")
	fs.StringVar(&c.filter.ScopePrefix, "scope-prefix", "", "list only operations in scopes that begin with `TEXT`")
	fs.StringVar(&c.filter.Name, "name", "", "list only operations with this `NAME`, such as \"POST /refunds\"")
	c.between.Flags(fs)
	cli.WindowFlags(fs, &c.filter.Window)
	fs.StringVar(&c.hash, "hash", "", "list only operations whose key has this `HASH`, as log lines contain it: 16 hexadecimal digits")
	fs.StringVar(&c.who, "by", cli.Operator(), "the name (`WHO`) of the operator who runs this command; the audit records the name")
	c.output.Flag(fs)
}

func (c *list) Run(ctx context.Context, m *cli.Env, _ []string) error {
	if err := cli.CheckLimit(c.filter.Limit); err != nil {
		return err
	}
	switch c.filter.State {
	case "", "running", "waiting", "done", "unknown", operate.StateExpired:
	default:
		return cli.Usage(fmt.Sprintf("the state %q does not exist", c.filter.State), "--state running, waiting, done, unknown, or expired")
	}
	if c.hash != "" && !keyHash.MatchString(c.hash) {
		return cli.Usage(fmt.Sprintf("--hash %q is not the hash of a key", c.hash), "--hash with the 16 hexadecimal digits that log lines have as idempotency_key")
	}
	db, err := m.Open(ctx, c.db, operate.Config{})
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := c.between.Read(ctx, db, &c.filter.Since, &c.filter.Before); err != nil {
		return err
	}
	p, err := c.list(ctx, db)
	if err != nil {
		return db.Failed("read", err)
	}
	looked(ctx, m, db, c.who, operate.Access{Scope: c.filter.Scope, Detail: words.Count(len(p.Items), "operation") + c.filters()})
	what := words.Either(c.filter.Scope+c.filters()+c.filter.After == "", "operations", "operations that match the flags")
	if c.filter.State == "running" {
		// An empty list of running operations surprises operators whose handlers work without leases.
		what += ". " + runningMeans
	}
	return cli.ShowPage(m, c.output, p, what, printList)
}

var keyHash = regexp.MustCompile("^[0-9a-f]{16}$")

// list returns a page, or all operations with the hash.
func (c *list) list(ctx context.Context, db *cli.DB) (p operate.Page[operate.Operation], err error) {
	if c.hash == "" {
		return db.Keys.List(ctx, c.filter)
	}
	p.Items, err = db.Keys.FindHash(ctx, c.hash, c.filter)
	return p, err
}

// filters are the given filter flags in words.
func (c *list) filters() string {
	var b strings.Builder
	for _, f := range [][2]string{
		{"state", c.filter.State}, {"scope-prefix", c.filter.ScopePrefix}, {"name", c.filter.Name}, {"since", c.between.Since}, {"before", c.between.Before}, {"hash", c.hash},
	} { // not --after, which contains a key
		if f[1] != "" {
			fmt.Fprintf(&b, " --%s %s", f[0], words.Quoted(f[1]))
		}
	}
	return b.String()
}

func printList(w io.Writer, list []operate.Operation) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "SCOPE\tKEY\tNAME\tSTATE\tRESULT\tBYTES\tSINCE\tEXPIRES\n")
	for _, op := range list {
		expires := "-"
		if op.ExpiresAt != nil {
			expires = op.ExpiresAt.Format(time.RFC3339)
		}
		result := "-"
		switch {
		case op.Result == "omitted":
			result = op.Result
		case op.Result != "":
			result = kindOf(op)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", words.Shown(op.Scope), words.Shown(op.Key), words.Either(op.Name != "", words.Shown(op.Name), "-"), op.State, result, op.ResultBytes, op.Since.Format(time.RFC3339), expires)
	}
	return t.Flush()
}
