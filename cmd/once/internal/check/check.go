// Package check is the command once check.
package check

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/check/probe"
	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/cmd/once/internal/oracle"
	"github.com/oncelib/once/cmd/once/internal/request"
	"github.com/oncelib/once/internal/base/words"
)

// Noun is once check.
var Noun = cli.Alone(entry, cli.GroupTry)

var entry = cli.Entry{
	Name: "check", Args: "FILE.http | -- curl...", Brief: "test whether an HTTP API handles idempotency keys correctly",
	Help: `Sends one request to a running HTTP API again and again. The command imitates clients that retry, die, make
mistakes, or send requests at the same time. The command reports each case in which an idempotency key does not
protect the API. The API may be written in any language. The request is a curl command after --, or a FILE whose name
ends in .http. The request takes effect about twenty times.

  once check -- curl http://localhost:8080/charges -H 'Authorization: Bearer acme' --json '{"amount":5000}'

An effect is a change that a request makes, such as a new charge. Without --effects the command compares the responses
of the API to find out whether two requests had one effect or two. The comparison of responses works only if the API
responds differently to two different keys. With --effects the command counts the effects. The value of --effects is a
URL, or ! and a shell command. The URL or the shell command must return one number, the number of effects.

  once check --effects '!psql -Atc "select count(*) from charge"' charge.http

The command sends requests only to this machine. To test an API on another machine, name the machine with
--i-own-this; the command then sends at most 5 requests a second. With --plan the command prints the requests
and does not send them. The command follows no redirects and uses no proxy.

A violation is a doubled or lost effect, a key that stays locked, or the response of another request. A deviation is a
response that misleads clients. The exit code is 0 if the command reports no violation and no deviation, 1 if the
command reports a violation or a deviation, and 2 if the command could not test the API.`,
	Make: func() cli.Runner { return new(check) },
}

type check struct {
	preset, keyHeader, effects, other string
	owned                             []string
	as                                http.Header
	after                             time.Duration
	plan                              bool
	output                            cli.Form
}

func (c *check) Flags(fs *pflag.FlagSet) {
	c.as = http.Header{}
	fs.StringVar(&c.preset, "preset", probe.Presets[0].Name, "the `NAME` of the format in which the API expects keys: "+strings.Join(probe.Names(), " or "))
	fs.StringVar(&c.keyHeader, "key-header", "Idempotency-Key", "the `NAME` of the header with the key")
	fs.StringVar(&c.effects, "effects", "", "the `URL` or the shell command (!COMMAND) that returns the number of effects")
	cli.HeaderFlag(fs, "as", c.as, "the credentials of a second caller: a header `'NAME: VALUE'`, or @FILE with one header in each line")
	fs.StringVar(&c.other, "other", "", "a second `BODY` that the API accepts (default: the body of the request, with its first number increased by one)")
	fs.StringSliceVar(&c.owned, "i-own-this", nil, "also allow requests to this `HOST`; the requests may damage the data of the host")
	fs.DurationVar(&c.after, "after", 0, "wait for this `TIME`, such as 24h, and then retry the first request")
	fs.BoolVar(&c.plan, "plan", false, "print the requests, and do not send them")
	c.output.Flag(fs)
}

func (c *check) Run(ctx context.Context, m *cli.Env, args []string) error {
	cfg, err := c.config(args)
	if err != nil {
		return err
	}
	p, err := probe.New(cfg)
	if err != nil {
		return usage(err)
	}
	if c.plan {
		return c.printPlan(m, p)
	}
	_, requests, effects := p.Plan()
	fmt.Fprintf(m.Stderr, "%s: the test sends at most %d requests, of which about %d take effect. If the API does not store its keys, more requests take effect.\n", cfg.Request.Place(), requests, effects)
	report, err := p.Run(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		return usage(err)
	}
	if err := c.print(m, report); err != nil {
		return err
	}
	switch {
	case !report.Passed():
		return cli.ErrSaid
	case report.Blind:
		return cli.Usage("the test has no result, because the API returns the same bytes for two keys: the responses do not show the number of effects", "--effects with a URL or a shell command that counts the effects")
	}
	return nil
}

// usage marks an error that has prevented the check. Such an error is not a mistake of the API.
func usage(err error) error {
	what, try := words.Advice(err.Error())
	return cli.Usage(what, words.Either(try != "", try, "once check --help"))
}

// config reads the command line.
func (c *check) config(args []string) (cfg probe.Config, err error) {
	r, err := read(args)
	if err != nil {
		return cfg, usage(err)
	}
	i := slices.Index(probe.Names(), c.preset)
	if i < 0 {
		return cfg, cli.Usage(fmt.Sprintf("the preset %q does not exist", c.preset), "--preset "+strings.Join(probe.Names(), ", or --preset "))
	}
	if c.after < 0 {
		return cfg, cli.Usage(fmt.Sprintf("--after %v is a time in the past", c.after), "--after 24h")
	}
	cfg = probe.Config{Request: r, KeyHeader: c.keyHeader, Preset: probe.Presets[i], Owned: c.owned, After: c.after}
	if c.other != "" {
		cfg.Other = []byte(c.other)
	}
	if len(c.as) > 0 {
		cfg.As = c.as
	}
	cfg.Effects, err = oracle.New(c.effects, c.owned)
	if err != nil {
		return cfg, usage(err)
	}
	return cfg, nil
}

// read reads the request: a curl command, or a file.
func read(args []string) (*request.Request, error) {
	switch {
	case len(args) == 0:
		return nil, cli.Usage("the request is missing", `once check -- curl http://localhost:8080/charges --json '{"amount":5000}'`)
	case len(args) == 1 && strings.HasSuffix(args[0], ".http"):
		text, err := os.ReadFile(args[0])
		if err != nil {
			return nil, fmt.Errorf("%w. Try: use an .http file that you may read", err)
		}
		return request.ParseFile(text)
	}
	return request.ParseCurl(args)
}
