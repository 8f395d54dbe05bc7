package simulate

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Report has the results of all policies in some scenarios. Its JSON form is a contract with scripts.
type Report struct {
	Seed      uint64    `json:"seed"`
	Step      float64   `json:"step_s"` // of the series
	Scenarios []Outcome `json:"scenarios"`
}

// Outcome has the results of all policies in one scenario.
type Outcome struct {
	Scenario

	Results []Result `json:"results"`
	Verdict string   `json:"verdict"` // in words, from the numbers of the results
}

// RunAll runs all policies in all scenarios.
func RunAll(scenarios []Scenario, seed uint64) Report {
	report := Report{Seed: seed, Step: Step.Seconds(), Scenarios: make([]Outcome, len(scenarios))}
	var wg sync.WaitGroup
	room := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i, s := range scenarios {
		policies := Policies()
		results := make([]Result, len(policies))
		report.Scenarios[i] = Outcome{Scenario: s, Results: results}
		for j, p := range policies {
			room <- struct{}{}
			wg.Go(func() {
				results[j] = Run(s, p, seed)
				<-room
			})
		}
	}
	wg.Wait()
	for i := range report.Scenarios {
		report.Scenarios[i].Verdict = verdict(report.Scenarios[i])
	}
	return report
}

// WriteJSON writes the report for scripts.
func (r Report) WriteJSON(w io.Writer) error { return json.NewEncoder(w).Encode(r) }

//go:embed report.html
var page string

var pageTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"chart":     func(o Outcome) template.HTML { return template.HTML(chart(o)) },                                 //nolint:gosec // numbers and our own words
	"spark":     func(o Outcome, r Result, kind string) template.HTML { return template.HTML(spark(o, r, kind)) }, //nolint:gosec // as above
	"facts":     facts,
	"thousands": thousands,

	"amplification": func(o Outcome) template.HTML { return template.HTML(amplification(o)) }, //nolint:gosec // as above
	"bars":          func(o Outcome) template.HTML { return template.HTML(bars(o)) },          //nolint:gosec // as above
}).Parse(page))

// WriteHTML writes the report for people, as one file that loads no other file.
func (r Report) WriteHTML(w io.Writer) error { return pageTemplate.Execute(w, r) }

// Recovered says when the service was well again.
func (r Result) Recovered() string {
	switch {
	case r.Recovery < 0:
		return "never"
	case r.Recovery < 0.05:
		return "at once"
	}
	return fmt.Sprintf("%.1f s", r.Recovery)
}

// Mood returns the color class for Recovered: how bad it is.
func (r Result) Mood() string {
	switch {
	case r.Recovery < 0:
		return "bad"
	case r.Recovery <= 1:
		return "good"
	}
	return "so-so"
}

// Percent returns the part of the intents that have succeeded.
func (r Result) Percent() string {
	return fmt.Sprintf("%.1f %%", 100*float64(r.Succeeded)/float64(max(1, r.Intents)))
}

// facts returns the numbers of a scenario in words.
func facts(s Scenario) []string {
	list := []string{fmt.Sprintf("%d clients", s.Clients)}
	if s.Think == 0 {
		list = append(list, thousands(int(s.Rate))+" calls per second")
	}
	return append(list,
		thousands(int(float64(s.Workers)*float64(time.Second)/float64(s.Service)))+" calls can be served per second",
		fmt.Sprintf("the service serves %d calls at a time, and needs %s for each call", s.Workers, spaced(s.Service)),
		"clients wait at most "+spaced(s.Timeout),
		fmt.Sprintf("the failure lasts from %s to %s", spaced(s.From), spaced(s.To)),
	)
}

// spaced returns a duration with a blank before its unit.
func spaced(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%g ms", float64(d)/float64(time.Millisecond))
	}
	return fmt.Sprintf("%g s", d.Seconds())
}

// thousands writes a number with commas.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return strings.TrimPrefix(s, ",")
}
