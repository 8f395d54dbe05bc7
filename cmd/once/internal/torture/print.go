package torture

import (
	"fmt"
	"strings"

	"github.com/oncelib/once/cmd/once/internal/check/probe"
	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/cmd/once/internal/torture/crash"
	"github.com/oncelib/once/internal/base/words"
)

const mostPoints = 8 // the largest number of points of one finding in the table

func (c *torture) print(m *cli.Env, r *crash.Report) error {
	if c.output != cli.Table {
		return cli.WriteList(m.Stdout, c.output, r, r.Findings)
	}
	count := map[probe.Level]int{}
	for _, f := range r.Findings {
		count[f.Level]++
		points := f.Points[:min(len(f.Points), mostPoints)]
		more := ""
		if n := len(f.Points) - len(points); n > 0 {
			more = fmt.Sprintf(", and %d more", n)
		}
		fmt.Fprintf(m.Stdout, "%s  %s\n  %s%s: %s.\n", f.Level, f.Cause, words.Either(len(r.Kills) > 0, "Killed ", ""), f.Points[0], f.Says)
		if len(f.Points) > 1 {
			fmt.Fprintf(m.Stdout, "  Seen at %d of %s: %s%s.\n", len(f.Points), words.Count(len(r.Kills), "kill"), strings.Join(points, ", "), more)
		}
		fmt.Fprintf(m.Stdout, "  Try: %s.\n\n", f.Try)
	}
	all := ""
	if r.Complete {
		all = ", at each packet of the request"
	}
	_, err := fmt.Fprintf(m.Stdout, "%s, %d before the answer%s: %s, %s.\n", words.Count(len(r.Kills), "kill"), r.Hits, all,
		words.Count(count[probe.Violation], "violation"), words.Count(count[probe.Deviation], "deviation"))
	return err
}
