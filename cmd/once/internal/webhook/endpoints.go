package webhook

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/operate"
)

var endpointsEntry = cli.Entry{
	Name: "webhook endpoints", Brief: "list endpoints and their failures",
	Help: `Lists the endpoints of all tenants. With --state failing the command lists the endpoints whose last attempt has failed.
FAILURES is the number of failures in a row, and SINCE is the time of the first of these failures. With --state open the
command lists the failing endpoints to which the relay sends no requests for a while, because the circuit breaker of the
endpoint is open. DUE SINCE is the time at which the oldest waiting delivery became due. An endpoint that fails for a
long time is disabled; the events that wait for it are not lost. PUBLIC KEY is the key with which receivers verify
signatures. Only an endpoint whose webhooks are signed with a private key has a PUBLIC KEY.`,
	Make: func() cli.Runner { return new(endpoints) },
}

type endpoints struct {
	db     string
	output cli.Form
	filter operate.EndpointFilter
}

func (c *endpoints) Flags(fs *pflag.FlagSet) {
	cli.DBFlag(fs, &c.db)
	fs.StringVar(&c.filter.State, "state", "", "list only endpoints in this `STATE`: active, failing, open or disabled")
	fs.StringVar(&c.filter.Tenant, "tenant", "", "list only endpoints of this `TENANT`")
	cli.WindowFlags(fs, &c.filter.Window)
	c.output.Flag(fs)
}

func (c *endpoints) Run(ctx context.Context, m *cli.Env, _ []string) error {
	if err := cli.CheckLimit(c.filter.Limit); err != nil {
		return err
	}
	switch c.filter.State {
	case "", operate.EndpointActive, operate.EndpointFailing, operate.EndpointOpen, operate.EndpointDisabled:
	default:
		return cli.Usage(fmt.Sprintf("the state %q does not exist", c.filter.State), "--state active, failing, open or disabled")
	}
	db, err := m.Open(ctx, c.db, operate.Config{})
	if err != nil {
		return err
	}
	defer db.Close()
	p, err := db.Hooks.Endpoints(ctx, c.filter)
	if err != nil {
		return refused(db, "read", err)
	}
	return cli.ShowPage(m, c.output, p, "endpoints that match the flags", printEndpoints)
}

func printEndpoints(w io.Writer, list []operate.Endpoint) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	asymmetric := slices.ContainsFunc(list, func(e operate.Endpoint) bool { return e.PublicKey != "" })
	fmt.Fprint(t, "ENDPOINT\tTENANT\tSTATE\tFAILURES\tSINCE\tDUE SINCE\tURL", words.Either(asymmetric, "\tPUBLIC KEY", ""), "\n")
	for _, e := range list {
		state, since := e.State, e.FailingSince
		if e.State == operate.EndpointDisabled {
			state, since = fmt.Sprintf("disabled (%s)", e.DisabledBy), e.DisabledAt
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s%s\n", e.ID, words.Shown(e.Tenant), state, words.OrDash(words.Either(e.Failures > 0, strconv.Itoa(e.Failures), "")),
			timeOrDash(since), timeOrDash(e.DueSince), words.Shown(e.URL), words.Either(asymmetric, "\t"+words.OrDash(e.PublicKey), ""))
	}
	return t.Flush()
}

func timeOrDash(t *time.Time) string {
	if t == nil {
		return words.OrDash("")
	}
	return words.Time(*t)
}
