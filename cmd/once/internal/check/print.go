package check

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/oncelib/once/cmd/once/internal/check/probe"
	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/internal/base/words"
)

// plan is the JSON form of --plan.
type plan struct {
	Request  string       `json:"request"`
	Requests int          `json:"requests"`
	Effects  int          `json:"effects"`
	Items    []probe.Step `json:"items"`
}

func (c *check) printPlan(m *cli.Env, p *probe.Probe) error {
	steps, requests, effects := p.Plan()
	if c.output != cli.Table {
		return cli.WriteList(m.Stdout, c.output, plan{p.Request.Place(), requests, effects, steps}, steps)
	}
	t := tabwriter.NewWriter(m.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "CHECK\tREQUESTS\tEFFECTS\tABOUT")
	for _, s := range steps {
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\n", s.Check, s.Requests, s.Effects, s.About+words.Either(s.Skipped == "", "", " (skipped: "+s.Skipped+")"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(m.Stderr, "%s: the test would send at most %d requests, of which about %d take effect. The command has sent no request.\n", p.Request.Place(), requests, effects)
	return err
}

func (c *check) print(m *cli.Env, r *probe.Report) error {
	if c.output != cli.Table {
		return cli.WriteList(m.Stdout, c.output, r, r.Findings)
	}
	count := map[probe.Level]int{}
	for _, level := range []probe.Level{probe.Violation, probe.Deviation, probe.Note} {
		for _, f := range r.Findings {
			if f.Level != level {
				continue
			}
			count[level]++
			fmt.Fprintf(m.Stdout, "%s  %s\n  %s.\n", f.Level, f.Cause, capital(f.Says))
			if len(f.Checks) > 1 {
				fmt.Fprintf(m.Stdout, "  Seen by the checks: %s.\n", strings.Join(f.Checks, ", "))
			}
			fmt.Fprintf(m.Stdout, "  Try: %s.\n\n", f.Try)
		}
	}
	skipped := 0
	for _, check := range r.Checks {
		if check.Outcome == "skipped" {
			skipped++
			fmt.Fprintf(m.Stdout, "skipped    %s: %s\n", check.Check, check.Why)
		}
	}
	made := words.Count(len(r.Checks)-skipped, "check") + ", " + words.Count(int(r.Requests), "request")
	if r.Effects != nil {
		made += ", " + words.Count(int(*r.Effects), "effect")
	}
	_, err := fmt.Fprintf(m.Stdout, "%s: %s, %s, %s.\n", made, words.Count(count[probe.Violation], "violation"), words.Count(count[probe.Deviation], "deviation"), words.Count(count[probe.Note], "note"))
	return err
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
