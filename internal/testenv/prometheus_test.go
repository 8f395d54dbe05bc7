package testenv

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"
)

// TestPrometheusScrapesAndEvaluates: it scrapes its targets, evaluates its rules, answers, and leaves
// nothing behind.
func TestPrometheusScrapesAndEvaluates(t *testing.T) {
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
	for got := ""; got != "8"; {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL()+"/api/v1/query?query="+url.QueryEscape(`eight{job="test"}`), http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var answer struct {
			Data struct {
				Result []struct{ Value [2]any }
			}
		}
		err = json.NewDecoder(resp.Body).Decode(&answer)
		_ = resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if len(answer.Data.Result) == 1 {
			got = fmt.Sprint(answer.Data.Result[0].Value[1])
		}
	}
	home := p.dir.path
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(home); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", home, err)
	}
}
