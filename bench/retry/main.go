// Command retry judges retrying HTTP clients by retry/retryhttp/roundtrippertest and
// writes what each of them has passed.
//
//	cd bench/retry && go run . -o RESULTS.md
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/oncelib/once/retry/retryhttp/roundtrippertest"
)

func main() {
	out := flag.String("o", "", "file to write; default: standard output")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	columns := make([][]roundtrippertest.Result, len(subjects))
	for i, s := range subjects {
		fmt.Fprintln(os.Stderr, s.name)
		columns[i] = roundtrippertest.Judge(ctx, s.Candidate)
	}
	text := table(columns)
	if *out == "" {
		fmt.Print(text)
		return
	}
	if err := os.WriteFile(*out, []byte(text), 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:gocritic // nothing is left to clean up
	}
}

// table returns the results as Markdown.
func table(columns [][]roundtrippertest.Result) string {
	var w strings.Builder
	p := func(format string, a ...any) { fmt.Fprintf(&w, format+"\n", a...) }
	p("<!-- Generated: cd bench/retry && go run . -o RESULTS.md -->")
	p("# Retrying HTTP clients")
	p("")
	p("Repeat with `cd bench/retry && go run . -o RESULTS.md`. Every check runs against real servers on loopback; what it")
	p("asks for is our opinion of what such a client must do, and the suite is ours. `client.go` has the configurations:")
	p("two retries with pauses of 10 to 20 ms, and otherwise the defaults of each client. A client that has an option for")
	p("what a check asks for, but not on by default, fails it. net/http, which does not retry, shows which checks are passed")
	p("by doing nothing. %s, Go %s.", time.Now().UTC().Format(time.DateOnly), strings.TrimPrefix(runtime.Version(), "go"))
	p("")
	versions := map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			versions[m.Path] = m.Version
		}
	}
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
	p("## What went wrong")
	for i, s := range subjects {
		p("\n### %s\n", s.name)
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

// address differs from run to run and says nothing.
var address = regexp.MustCompile(`127\.0\.0\.1:\d+`)

func passed(column []roundtrippertest.Result) (n int) {
	for _, r := range column {
		if r.Passed {
			n++
		}
	}
	return n
}
