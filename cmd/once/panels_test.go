package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
)

// TestEveryPanelHasDataInTheDemo: after one charge, demo serve has a series for each name and each label that a query of the dashboard
// asks for. The names of recording rules stand for what their rules ask for.
func TestEveryPanelHasDataInTheDemo(t *testing.T) {
	t.Parallel()
	service, said := serving(t)
	t.Cleanup(func() { _ = service.Process.Kill(); _ = service.Wait() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	charge(ctx, t, said["serving"])
	panels := panelQueries(t)
	if len(panels) < 30 {
		t.Fatalf("vacuous: %d panels", len(panels))
	}
	for {
		has := seriesAt(ctx, t, said["metrics"])
		var empty []string
		for title, queries := range panels {
			for _, q := range queries {
				for _, name := range missingOf(q, has) {
					empty = append(empty, title+": "+name)
				}
			}
		}
		if len(empty) == 0 {
			return
		}
		select {
		case <-ctx.Done():
			slices.Sort(empty)
			t.Fatalf("no data:\n%s", strings.Join(empty, "\n"))
		case <-time.After(200 * time.Millisecond): // the next look of the gauges
		}
	}
}

func charge(ctx context.Context, t *testing.T, address string) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address+"/charges", strings.NewReader(`{"amount":5000,"currency":"EUR","customer":"ada"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer acme")
	req.Header.Set("Idempotency-Key", once.NewKey())
	resp, err := http.DefaultClient.Do(req)
	if err != nil || resp.StatusCode != http.StatusCreated {
		t.Fatal(resp, err)
	}
	_ = resp.Body.Close()
}

// panelQueries are the queries of each panel of the dashboard.
func panelQueries(t *testing.T) map[string][]string {
	t.Helper()
	rules := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^ +- record: ([\w:]+)\n +expr: (?:\|\n((?: {10}.+\n)+)|(.+)\n)`).FindAllStringSubmatch(text(t, rulesDir, "rules.yml"), -1) {
		rules[m[1]] = m[2] + m[3]
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(text(t, "../../observability/grafana/once.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{}
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			query := target.Expr
			for name, of := range rules {
				query = strings.ReplaceAll(query, name, "("+of+")")
			}
			found[p.Title] = append(found[p.Title], query)
		}
	}
	return found
}

var (
	selector = regexp.MustCompile(`\b(once_\w+)(\{[^}]*\})?`)
	matcher  = regexp.MustCompile(`(\w+)(=~|!~|!=|=)"([^"]*)"`)
	grouping = regexp.MustCompile(`by \(([^)]*)\)`)
)

// missingOf returns the selectors of a query that no series satisfies. What it groups by must be a label of one of them, except le and job, which is the scraper's.
func missingOf(query string, has []map[string]string) (missing []string) {
	for _, s := range selector.FindAllStringSubmatch(query, -1) {
		if !slices.ContainsFunc(has, func(series map[string]string) bool { return series["__name__"] == s[1] && satisfies(series, s[2]) }) {
			missing = append(missing, s[0])
		}
	}
	for _, g := range grouping.FindAllStringSubmatch(query, -1) {
		for label := range strings.SplitSeq(g[1], ",") {
			label = strings.TrimSpace(label)
			if label != "job" && !slices.ContainsFunc(has, func(series map[string]string) bool {
				return series[label] != "" && strings.Contains(query, series["__name__"])
			}) {
				missing = append(missing, fmt.Sprintf("the label %s of %s", label, query))
			}
		}
	}
	return missing
}

// satisfies reports whether a series has what the matchers of a selector want.
func satisfies(series map[string]string, matchers string) bool {
	for _, m := range matcher.FindAllStringSubmatch(matchers, -1) {
		if m[1] == "job" { // the scraper's
			continue
		}
		same := series[m[1]] == m[3]
		if strings.HasSuffix(m[2], "~") {
			same = regexp.MustCompile("^(?:" + m[3] + ")$").MatchString(series[m[1]])
		}
		if same == strings.HasPrefix(m[2], "!") {
			return false
		}
	}
	return true
}

// seriesAt are the labels of the samples that Prometheus would read, with their names.
func seriesAt(ctx context.Context, t *testing.T, url string) (has []map[string]string) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	sample := regexp.MustCompile(`(?m)^(\w+)(\{.*\})? \S+`)
	for _, m := range sample.FindAllStringSubmatch(string(page), -1) {
		series := map[string]string{"__name__": m[1]}
		for _, l := range matcher.FindAllStringSubmatch(m[2], -1) {
			series[l[1]] = l[3]
		}
		has = append(has, series)
	}
	return has
}
