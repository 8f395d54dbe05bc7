// Package storm is the command once storm.
package storm

import (
	"context"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/cmd/once/internal/simulate"
)

// Noun is once storm.
var Noun = cli.Alone(entry, cli.GroupTry)

var entry = cli.Entry{
	Name: "storm", Brief: "simulate the effect of retries on a service that is slow or unavailable",
	Help: `Simulates clients that retry in different ways while a service is slow or unavailable. The command prints when the
service has recovered, how many calls have succeeded, and how many requests were sent. Then the command explains how it
counts the numbers, and prints a verdict. The simulated clients decide with the code of packages retry and limit. The
same seed gives the same result, byte for byte.

  ordinary an ordinary day, on which one attempt in a hundred fails
  herd     for ten seconds the service can serve fewer requests than it gets, so requests queue up
  slow     for twenty seconds every request takes longer than the clients wait
  pool     some requests wait for a lock, and their retries use up the connection pool
  outage   for thirty seconds the service accepts no connections`,
	Make: func() cli.Runner { return new(storm) },
}

type storm struct {
	preset  string
	seed    uint64
	clients int
	html    string
	json    bool
}

func (c *storm) Flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.preset, "preset", "all", "the `NAME` of the simulated failure, or all")
	fs.Uint64Var(&c.seed, "seed", 1, "seed: the `NUMBER` from which the simulation generates its random numbers")
	fs.IntVar(&c.clients, "clients", 20, "the `NUMBER` of client processes in the simulation")
	fs.StringVar(&c.html, "html", "", "write a report with drawings to `FILE`")
	fs.BoolVar(&c.json, "json", false, "print the result as one JSON object")
}

const mostClients = 10_000

func (c *storm) Run(_ context.Context, m *cli.Env, _ []string) error {
	scenarios := simulate.Presets()
	if c.preset != "all" {
		s, ok := simulate.Preset(c.preset)
		if !ok {
			return cli.Usage(fmt.Sprintf("the preset %q does not exist", c.preset), "--preset ordinary, herd, slow, pool, outage, or all")
		}
		scenarios = []simulate.Scenario{s}
	}
	if c.clients < 1 || c.clients > mostClients {
		return cli.Usage(fmt.Sprintf("--clients %d is not a number from 1 to %d", c.clients, mostClients), "--clients 20")
	}
	for i := range scenarios {
		scenarios[i].Clients = c.clients
	}
	report := simulate.RunAll(scenarios, c.seed)
	if c.html != "" {
		if err := c.write(report); err != nil {
			return fmt.Errorf("%w. Try: --html with a writable file", err)
		}
	}
	if c.json {
		return report.WriteJSON(m.Stdout)
	}
	for _, o := range report.Scenarios {
		if err := printStorm(m.Stdout, o); err != nil {
			return err
		}
	}
	if c.html != "" {
		fmt.Fprintf(m.Stderr, "The report is in %s.\n", c.html)
	}
	return nil
}

func (c *storm) write(report simulate.Report) error {
	file, err := os.Create(c.html)
	if err != nil {
		return err
	}
	if err := report.WriteHTML(file); err != nil {
		file.Close()
		return err
	}
	return file.Close()
}

func printStorm(w io.Writer, o simulate.Outcome) error {
	fmt.Fprintf(w, "\n%s (%s)\n\n", o.Title, o.Name)
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "recovered after\tsucceeded\trunning at the end\tnot sent\tattempts per call\tworst second\tlongest queue\t  policy")
	for _, r := range o.Results {
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%.2f\t%.1f\t%d\t  %s\n", r.Recovered(), r.Percent(), r.Open, r.Unsent, r.Amplified, r.Peak, r.Queue, r.Name)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\n\"succeeded\" is the part of all calls in %v that succeeded. Calls that were running at the end, and calls that a breaker\nrefused to send, count as failed. \"attempts per call\" counts the attempts from %v to %v. \"worst second\" is the largest\nnumber of attempts per call in one second of the whole time.\n", o.Length, o.From, o.To)
	_, err := fmt.Fprintf(w, "\nVerdict: %s\n", o.Verdict)
	return err
}
