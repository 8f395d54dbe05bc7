// Command retry compares retry libraries: HTTP clients by retry/retryhttp/roundtrippertest and by their cost, and loops around a function by their
// cost.
//
//	cd bench/rivals/retry && GOWORK=off go run . -o RESULTS.md
package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/oncelib/once/bench/rivals/frame"
	"github.com/oncelib/once/retry/retryhttp/roundtrippertest"
)

func main() { frame.Main("a short look at the speed, without the checks", report) }

// report is the whole file.
func report(ctx context.Context, quick bool) (string, error) {
	r := race{rounds: 21, slice: 15 * time.Millisecond}
	if quick {
		r = race{rounds: 5, slice: 2 * time.Millisecond}
	}
	var w strings.Builder
	w.WriteString("<!-- Generated: cd bench/rivals/retry && GOWORK=off go run . -o RESULTS.md -->\n# Retrying\n\n")
	fmt.Fprintf(&w, "Repeat with `cd bench/rivals/retry && GOWORK=off go run . -o RESULTS.md`. %s, Go %s, %d cores.\n",
		time.Now().UTC().Format(time.DateOnly), strings.TrimPrefix(runtime.Version(), "go"), runtime.NumCPU())
	speed, err := r.speed(ctx) // first, because the checks leave connections to be closed
	if err != nil {
		return "", err
	}
	if !quick {
		columns := make([][]roundtrippertest.Result, len(subjects))
		for i, s := range subjects {
			fmt.Fprintln(os.Stderr, s.name)
			columns[i] = roundtrippertest.Judge(ctx, s.Candidate)
		}
		w.WriteString(table(columns))
		w.WriteString(situations(ctx))
	}
	w.WriteString(speed)
	return w.String(), nil
}

// table returns the results as Markdown.
func table(columns [][]roundtrippertest.Result) string {
	var w strings.Builder
	p := func(format string, a ...any) { fmt.Fprintf(&w, format+"\n", a...) }
	p("")
	p("## Checks of HTTP clients")
	p("")
	p("Every check runs against real servers on loopback; what it asks for is our opinion of what such a client must do, and")
	p("the suite is ours. `client.go` has the configurations: two retries with pauses of 10 to 20 ms, and otherwise the")
	p("defaults of each client. A client that has an option for what a check asks for, but not on by default, fails it.")
	p("net/http, which does not retry, shows which checks are passed by doing nothing.")
	p("")
	versions := versions()
	row := func(cells []string) { p("| %s |", strings.Join(cells, " | ")) }
	head, line, sum := []string{""}, []string{"---"}, []string{"**passed**"}
	for i, s := range subjects {
		head = append(head, strings.TrimSpace(s.name+" "+versions[s.module]))
		line = append(line, ":-:")
		sum = append(sum, fmt.Sprintf("**%d of %d**", passed(columns[i]), len(columns[i])))
	}
	row(head)
	row(line)
	row(sum)
	for i, check := range roundtrippertest.Checks() {
		cells := []string{check.Promise}
		for _, column := range columns {
			cells = append(cells, map[bool]string{true: "yes", false: "**no**"}[column[i].Passed])
		}
		row(cells)
	}
	p("")
	p("### What went wrong")
	for i, s := range subjects {
		p("\n#### %s\n", s.name)
		for _, r := range columns[i] {
			if !r.Passed {
				p("- %s: %s", r.Check, address.ReplaceAllString(strings.ReplaceAll(r.Note, "\n", "; "), "server"))
			}
		}
		if passed(columns[i]) == len(columns[i]) {
			p("Nothing.")
		}
	}
	return w.String()
}

// versions are the versions of the modules in this program.
func versions() map[string]string {
	all := map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			all[m.Path] = m.Version
		}
	}
	return all
}

// address differs from run to run and is left out.
var address = regexp.MustCompile(`127\.0\.0\.1:\d+`)

func passed(column []roundtrippertest.Result) (n int) {
	for _, r := range column {
		if r.Passed {
			n++
		}
	}
	return n
}
