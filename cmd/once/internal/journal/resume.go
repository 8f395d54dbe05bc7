package journal

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/internal/base/hostname"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/operate"
)

var resumeEntry = cli.Entry{
	Name: "journal resume", Brief: "send the requests of open intents again, with the same keys",
	Help: `Reads the journal of a client. If the outcome of a request is not known, the command sends the request again, with the
same key. An open intent is the record of a request whose outcome is not known. When the outcome of a request is known,
the command closes the intent. A server that supports idempotency keys does not execute a finished operation again. If
the journal is a file, stop its client before you run this command.

The journal does not contain secrets, such as the header Authorization. Give the secrets with --header; you can repeat
this flag. With --header @FILE the command reads the header lines from a file, so that the secrets are not in the list
of processes. The command sends the secrets to only one host. If the journal has intents for several hosts, name one
host with --host, and run the command separately for each host. If a server redirects a request to another host, the
command sends the request to that host without the secrets.

  once journal resume --file intents --host api.example --header 'Authorization: Bearer ...'

If a server fails, the command sends only a few requests to this server; the other intents stay open, and you can resume
them later.

The journal contains an expiry time for each key. After the expiry time of a key, the command does not send the request.
An operator must then find out whether the request took effect, and record the outcome with "once journal resolve". Some
intents in a database have no expiry time, because a transaction has stored these intents before the first attempt. For
an intent without an expiry time, --retention says how long the server remembers the key, counted from the time at which
the intent was stored. For an intent with an expiry time, --retention can make the expiry time earlier, but never later.

The exit code is 1 if an intent is still open at the end.`,
	Make: func() cli.Runner { return &resume{header: http.Header{}} },
}

type resume struct {
	place     place
	output    cli.Form
	host      string
	header    http.Header
	retention time.Duration
}

func (c *resume) Flags(fs *pflag.FlagSet) {
	c.place.Flags(fs)
	c.output.Flag(fs)
	fs.DurationVar(&c.retention, "retention", 0, "the `TIME` for which the server remembers a key, such as 72h (default: the time in the journal, or 24h)")
	fs.StringVar(&c.host, "host", "", "resume only intents for this `HOST`, in the same form as in the URL: api.example or api.example:8443")
	cli.HeaderFlag(fs, "header", c.header, "a header `LINE` for all requests to the host, such as 'Authorization: Bearer ...', or @FILE with one header in each line; can be repeated")
}

func (c *resume) Run(ctx context.Context, m *cli.Env, _ []string) (err error) {
	if c.retention < 0 {
		return cli.Usage(fmt.Sprintf("--retention %s must not be negative", c.retention), "--retention 72h")
	}
	f, err := c.place.open(ctx, m)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if c.host != "" {
		if err := c.missing(ctx, m, f); err != nil {
			return err
		}
	}
	a, failed := f.Resume(ctx, operate.ResumeRequest{Host: c.host, Header: c.header, Retain: c.retention})
	if many := new(operate.HostsError); errors.As(failed, &many) {
		return cli.Usage(fmt.Sprintf("the journal has intents for %d hosts, and --header would send the secret to all these hosts", len(many.Hosts)),
			fmt.Sprintf("--host %s, or one of: %s", words.Quoted(many.Hosts[0]), words.Shown(strings.Join(many.Hosts[1:], ", "))))
	}
	if c.output != cli.Table {
		err = cli.WriteJSON(m.Stdout, c.output, a)
	} else {
		for _, r := range a.Answers {
			fmt.Fprintf(m.Stdout, "%s  %d %s  %s\n", words.Shown(r.Key), r.Status, http.StatusText(r.Status), words.Shown(r.URL))
		}
		left := ""
		if a.Left > 0 {
			left = fmt.Sprintf(" (%d of the open requests were not sent, because their server fails)", a.Left)
		}
		fmt.Fprintf(m.Stdout, "%d closed, %d still open%s, %d held for the decision of an operator\n", a.Closed, a.Open, left, a.Held)
	}
	switch {
	case err != nil:
		return err
	case failed != nil:
		return fmt.Errorf("%w. Try: run the same command again when the server answers", failed)
	case a.Left > 0:
		return errors.New("a server fails, so the command has not sent the other requests to this server. Try: run the same command again when the server works")
	case a.Held > 0:
		return errors.New("some keys have expired. Try: find out whether these requests took effect, and then run once journal resolve KEY --as applied, or --as not-applied")
	case a.Open > 0:
		return errors.New("the outcome of some requests is still unknown. Try: run the same command again; or look at the answers of the server, and use --header to send the headers that the server needs")
	}
	return nil
}

// missing returns the error for a host without open intents, if other hosts have some.
func (c *resume) missing(ctx context.Context, m *cli.Env, f *intents) error {
	hosts, err := f.Hosts(ctx)
	if host := hostname.Canonical(c.host); err == nil && len(hosts) > 0 && !slices.Contains(hosts, host) {
		fmt.Fprintf(m.Stderr, "The journal has no open intent for %s. The journal has open intents for: %s\n", words.Shown(host), words.Shown(strings.Join(hosts, ", ")))
	}
	return err
}
