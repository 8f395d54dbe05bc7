// Package journal is the commands of once journal: requests of a client whose outcome is not known.
package journal

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/operate"
)

// Noun is once journal.
var Noun = cli.Noun{
	Name: "journal", Brief: "requests whose outcome a client does not know", Group: cli.GroupOperate,
	Entries: []cli.Entry{listEntry, resumeEntry, resolveEntry},
}

var listEntry = cli.Entry{
	Name: "journal list", Brief: "list requests whose outcome a client does not know",
	Help: `Lists the open intents in the journal of a client (package retry/journal), the oldest first. An intent is the record
of a request that the client wants to complete. An intent is open until the client knows the outcome of the request.
The journal is a file, or a table in a database that several clients share; clients may run at the same time as this
command. The command prints only the method and the address of each request. The state of an intent is

  open      the request can be sent again, by the client or by "once journal resume"
  expired   the key of the request is too old, so the request must not be sent again: an operator must find
            out whether the request took effect, and record the answer with "once journal resolve"
  held      the server has responded that the key is too old: treat the intent like an expired intent`,
	Make: func() cli.Runner { return new(list) },
}

type list struct {
	place  place
	output cli.Form
}

func (c *list) Flags(fs *pflag.FlagSet) {
	c.place.Flags(fs)
	c.output.Flag(fs)
}

func (c *list) Run(ctx context.Context, m *cli.Env, _ []string) error {
	list, err := c.place.list(ctx, m)
	if err != nil {
		return err
	}
	if c.output != cli.Table {
		return cli.WriteList(m.Stdout, c.output, operate.Page[operate.Intent]{Items: list}, list)
	}
	if len(list) == 0 {
		return m.Empty("open intents")
	}
	return printIntents(m.Stdout, list)
}

func printIntents(w io.Writer, list []operate.Intent) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "KEY\tSTATE\tMETHOD\tURL\tBYTES\tSINCE\tEXPIRES\n")
	for _, in := range list {
		expires := "-"
		if in.ExpiresAt != nil {
			expires = in.ExpiresAt.Format(time.RFC3339)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", words.Shown(in.Key), in.State, words.Shown(in.Method), words.Shown(in.URL), in.BodyBytes, in.Since.Format(time.RFC3339), expires)
	}
	return t.Flush()
}
