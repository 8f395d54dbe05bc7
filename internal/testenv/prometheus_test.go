package testenv

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

// TestPrometheusScrapesAndEvaluates: it scrapes its targets, evaluates its rules, answers, and leaves
// nothing behind.
func TestPrometheusScrapesAndEvaluates(t *testing.T) {
	Prove(t)
	t.Parallel()
	Need(t, "prometheus")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "seven 7") }))
	defer target.Close()
	p, err := StartPrometheus(ctx, PrometheusConfig{
		Jobs: map[string]string{"test": strings.TrimPrefix(target.URL, "http://")}, Every: 100 * time.Millisecond,
		Rules: []string{"groups: [ { name: g, rules: [ { record: eight, expr: seven + 1 } ] } ]"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	n := 0
	for tick := time.NewTicker(20 * time.Millisecond); n == 0; <-tick.C {
		if n, err = p.Query(ctx, `eight{job="test"} == 8`); err != nil {
			t.Fatal(err)
		}
	}
	if n, err = p.Query(ctx, "eight / 0 - eight / 0"); err != nil || n != 0 {
		t.Errorf("%d series that are not a number, %v", n, err)
	}
	if _, err = p.Query(ctx, "eight +"); err == nil {
		t.Error("half a query has an answer")
	}
	home := p.dir.path
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(home); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", home, err)
	}
}
