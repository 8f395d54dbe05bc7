package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// String returns the page.
func (c *card) String() string {
	var s strings.Builder
	runs, sum := 0, map[string]int{}
	for _, r := range c.rows {
		runs += r.runs
		for what, n := range r.counts {
			what, _, _ = strings.Cut(what, ",")
			sum[what] += n
		}
	}
	fmt.Fprintf(&s, "# Reliability\n\nThis page is what `make card` counted in a run of %s on %s, at commit %s. It is written by that command and never by hand.\n\n",
		c.took.Round(time.Minute), c.began.UTC().Format("2 January 2006"), c.commit)
	fmt.Fprintf(&s, "**%d runs of %d lines; %d violations.** Together: %s.\n\n", runs, len(c.rows), c.violations(), told(sum))
	s.WriteString("A violation is a test that failed: an effect that is there twice or not at all, an answer that became false, a message that was lost. " +
		"[GUARANTEES.md](GUARANTEES.md) says what is promised. Each run has a seed, which chooses where the faults fall; the last column repeats the last run. " +
		"`make card` takes an hour and uses servers that it starts itself; `make card CARDTIME=10m` takes less, but not less than one round of all lines.\n\n")
	s.WriteString("| what is done | on | runs | counted | violations | again |\n|---|---|---:|---|---:|---|\n")
	for _, r := range c.rows {
		violations := strconv.Itoa(len(r.failed))
		if len(r.failed) > 0 {
			violations = fmt.Sprintf("**%d**, seeds %v", len(r.failed), r.failed)
		}
		fmt.Fprintf(&s, "| %s | %s | %d | %s | %s | `%s` |\n", r.claim, r.database(), r.runs, told(r.counts), violations, strings.Join(r.again(), " "))
	}
	return s.String()
}

// again returns the command that repeats the last run of a row, from the root of the repository.
func (r *row) again() []string {
	words := slices.Clone(r.env)
	if !r.unseeded {
		words = append(words, fmt.Sprintf("ONCE_TORTURE_SEED=%d", r.seed))
	}
	return append(words, "go test -count=1 -run", "'"+r.run+"'", "./"+r.dir)
}

func (c *card) violations() (n int) {
	for _, r := range c.rows {
		n += len(r.failed)
	}
	return n
}

// told returns counts in the form of a sentence.
func told(counts map[string]int) string {
	var list []string
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		list = append(list, thousands(counts[what])+" "+what)
	}
	return strings.Join(list, "; ")
}

// thousands formats a number with commas: 12345 as 12,345.
func thousands(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
