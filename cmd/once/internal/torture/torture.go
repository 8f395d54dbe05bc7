// Package torture is the command once torture.
package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/check/probe"
	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/cmd/once/internal/oracle"
	"github.com/oncelib/once/cmd/once/internal/request"
	"github.com/oncelib/once/cmd/once/internal/torture/crash"
	"github.com/oncelib/once/internal/base/words"
)

// Noun is once torture.
var Noun = cli.Alone(entry, cli.GroupTry)

var entry = cli.Entry{
	Name: "torture", Args: "COMMAND...", Brief: "test whether an HTTP API handles idempotency keys correctly when the API is killed",
	Help: `Starts COMMAND, which must serve an HTTP API. The test sends a request with an idempotency key to the API,
and kills COMMAND before the API responds. Then the test starts COMMAND again, sends the request again with the same
key, and counts the effects. The API may be written in any language. The FILE contains the request, as an .http file or
as a curl command.

  once torture --request charge.http --effects '!psql -Atc "select count(*) from charge"' \
    --proxy 5433=5432 -- node server.js {port}

With --proxy LISTEN=DATABASE, the test forwards connections from the port LISTEN to the port DATABASE, and COMMAND
must connect to its database at the port LISTEN. The test then kills COMMAND at each packet between COMMAND and the
database: before the packet is forwarded to the database, and after the answer of the database has arrived. Without
--proxy, COMMAND is killed at different times after the request was sent.

{port} in COMMAND and in --effects is replaced by a free port, and the request is sent to this port. Each kill needs
one more request that takes effect. With --plan the command prints the test and starts no process. When the test ends,
is interrupted or is killed, all processes of COMMAND are ended too.

The exit code is 0 if the API handled the keys correctly, 1 if the API made a mistake, and 2 if the test has no result,
for example because no kill happened during a request.`,
	Make: func() cli.Runner { return new(torture) },
}

type torture struct {
	request, effects, keyHeader string
	preset                      string
	proxies, owned              []string
	kills                       int
	patience                    time.Duration
	plan                        bool
	output                      cli.Form
}

func (c *torture) Flags(fs *pflag.FlagSet) {
	fs.SetInterspersed(false) // flags after the command belong to the command
	fs.StringVar(&c.request, "request", "", "the `FILE` with the request: an .http file, or a curl command")
	fs.StringVar(&c.effects, "effects", "", "the `URL` or the shell command (!COMMAND) that returns the number of effects")
	fs.StringSliceVar(&c.proxies, "proxy", nil, "`LISTEN=DATABASE`: kill the API at each packet to the database; LISTEN is a port, and DATABASE is a port or HOST:PORT")
	fs.StringVar(&c.preset, "preset", probe.Presets[0].Name, "the `NAME` of the format in which the API expects keys: "+strings.Join(probe.Names(), " or "))
	fs.StringVar(&c.keyHeader, "key-header", "Idempotency-Key", "the `NAME` of the header with the key")
	fs.IntVar(&c.kills, "kills", 40, "kill the API at most this `NUMBER` of times")
	fs.DurationVar(&c.patience, "stuck-after", 2*time.Second, "if the API still refuses a key this `TIME` after a restart, report the key as stuck")
	fs.StringSliceVar(&c.owned, "i-own-this", nil, "also allow requests to this `HOST`; the test may damage the data of the host")
	fs.BoolVar(&c.plan, "plan", false, "print the test, and start no process")
	c.output.Flag(fs)
}

func (c *torture) Run(ctx context.Context, m *cli.Env, args []string) error {
	cfg, err := c.config(ctx, args)
	if err != nil {
		return usage(err)
	}
	fmt.Fprintf(m.Stderr, "%s: the test kills %[3]s at most %[2]d times. Each kill needs one request that takes effect.\n", cfg.Request.Place(), cfg.Kills, cfg.Command[0])
	if c.plan {
		_, err := fmt.Fprintln(m.Stderr, "The command has started no process.")
		return err
	}
	report, err := crash.Run(ctx, cfg)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return usage(err)
	}
	if err := c.print(m, report); err != nil {
		return err
	}
	switch {
	case len(report.Findings) > 0:
		return cli.ErrSaid
	case report.Hits == 0:
		try := "a larger number of --kills"
		if len(cfg.Proxies) > 0 {
			try = cfg.Proxies[0].Listen + " as the address of the database in the settings of the tested command"
		}
		return cli.Usage("no kill happened during a request: the test has no result", try)
	}
	return nil
}

// usage marks an error: the command found out nothing, which is not the same as a mistake of the API.
func usage(err error) error {
	what, try := words.Advice(err.Error())
	return cli.Usage(what, words.Either(try != "", try, "once torture --help"))
}

// config reads the command line.
func (c *torture) config(ctx context.Context, args []string) (cfg crash.Config, err error) {
	switch {
	case len(args) == 0:
		return cfg, cli.Usage("the command that serves the API is missing", "once torture --request charge.http --effects http://localhost:{port}/count -- node server.js {port}")
	case c.request == "":
		return cfg, cli.Usage("--request is missing", "--request charge.http, a file that begins with POST http://localhost:8080/charges")
	case c.effects == "":
		return cfg, cli.Usage("--effects is missing, and the test must count the effects", `--effects '!psql -Atc "select count(*) from charge"'`)
	case c.kills < 1:
		return cfg, cli.Usage(fmt.Sprintf("--kills %d is not a number of kills", c.kills), "--kills 40")
	case c.patience <= 0:
		return cfg, cli.Usage(fmt.Sprintf("--stuck-after %v must be greater than zero", c.patience), "--stuck-after 2s")
	}
	i := slices.Index(probe.Names(), c.preset)
	if i < 0 {
		return cfg, cli.Usage(fmt.Sprintf("the preset %q does not exist", c.preset), "--preset "+strings.Join(probe.Names(), ", or --preset "))
	}
	cfg = crash.Config{Command: slices.Clone(args), KeyHeader: c.keyHeader, Quoted: probe.Presets[i].Quoted, Kills: c.kills, Patience: c.patience}
	if cfg.Request, err = request.ReadFile(c.request); err != nil {
		return cfg, err
	}
	if err := probe.Allow(cfg.Request.URL.Hostname(), c.owned); err != nil {
		return cfg, err
	}
	effects := c.effects
	if slices.ContainsFunc(args, func(a string) bool { return strings.Contains(a, "{port}") }) {
		port, err := freePort(ctx)
		if err != nil {
			return cfg, err
		}
		for i := range cfg.Command {
			cfg.Command[i] = strings.ReplaceAll(cfg.Command[i], "{port}", port)
		}
		effects = strings.ReplaceAll(effects, "{port}", port)
		cfg.Request.URL.Host = net.JoinHostPort(cfg.Request.URL.Hostname(), port)
	}
	if cfg.Effects, err = oracle.New(effects, c.owned); err != nil {
		return cfg, err
	}
	cfg.Proxies, err = readProxies(c.proxies, c.owned)
	return cfg, err
}

// readProxies reads LISTEN=DATABASE. Each is a port of this machine, or HOST:PORT.
func readProxies(texts, owned []string) (list []crash.Proxy, err error) {
	for _, text := range texts {
		listen, target, ok := strings.Cut(text, "=")
		p := crash.Proxy{Listen: local(listen), Target: local(target)}
		host, _, err := net.SplitHostPort(p.Target)
		if !ok || err != nil || listen == target {
			return nil, cli.Usage(fmt.Sprintf("--proxy %s is not LISTEN=DATABASE", text), "--proxy 5433=5432, where the database listens at 5432")
		}
		if err := probe.Allow(host, owned); err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, nil
}

func local(address string) string {
	return words.Either(strings.Contains(address, ":"), address, "127.0.0.1:"+address)
}

// freePort returns a port below the range of client connections, so that no connection takes it while the command is down.
func freePort(ctx context.Context) (string, error) {
	for range 100 {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(20000+rand.IntN(10000)))
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if err != nil {
			continue
		}
		l.Close()
		_, port, err := net.SplitHostPort(address)
		return port, err
	}
	return "", errors.New("no port between 20000 and 30000 is free. Try: write a fixed port into the command and into the request")
}
