package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oncelib/once/internal/testenv"
)

// One seed is one storm: two processes write the same bytes.
func TestStorm(t *testing.T) {
	testenv.Prove(t)
	var pages, answers []string
	for range 2 {
		file := filepath.Join(t.TempDir(), "report.html")
		o := run(t, "storm", "--preset", "outage", "--seed", "7", "--clients", "5", "--json", "--html", file).want(t, 0)
		page, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pages, answers = append(pages, string(page)), append(answers, o.stdout)
	}
	if pages[0] != pages[1] || answers[0] != answers[1] {
		t.Error("the same seed gives two storms")
	}
	if other := run(t, "storm", "--preset", "outage", "--seed", "8", "--clients", "5", "--json").want(t, 0); other.stdout == answers[0] {
		t.Error("two seeds give the same storm")
	}
	var answer struct {
		Seed      int `json:"seed"`
		Scenarios []struct {
			Name    string `json:"name"`
			Clients int    `json:"clients"`
			Results []struct {
				Name          string  `json:"name"`
				Recovery      float64 `json:"recovery_s"`
				Amplification float64 `json:"amplification"`
				Series        struct {
					Good []int `json:"good"`
				} `json:"series"`
			} `json:"results"`
		} `json:"scenarios"`
	}
	if err := json.Unmarshal([]byte(answers[0]), &answer); err != nil {
		t.Fatal(err)
	}
	if len(answer.Scenarios) != 1 || answer.Seed != 7 || answer.Scenarios[0].Name != "outage" || answer.Scenarios[0].Clients != 5 {
		t.Fatalf("%+v", answer)
	}
	amplification := map[string]float64{}
	for _, r := range answer.Scenarios[0].Results {
		amplification[r.Name] = r.Amplification
		if len(r.Series.Good) != 1200 {
			t.Errorf("%s has %d steps", r.Name, len(r.Series.Good))
		}
	}
	if amplification["no retries"] != 1 || amplification["full jitter"] < 4 || amplification["once/retry"] > 1.15 {
		t.Errorf("%v", amplification)
	}
	for _, part := range []string{"<svg", "prefers-color-scheme: dark", "--seed 7", "once/retry", `aria-label="attempts an intent, over time"`, `aria-label="time to be well again"`} {
		if !strings.Contains(pages[0], part) {
			t.Errorf("the report has no %q", part)
		}
	}
	for _, part := range []string{"<script", "http://", "https://", "NaN", "ZgotmplZ", "%!"} {
		if strings.Contains(pages[0], part) {
			t.Errorf("the report has %q", part)
		}
	}
}

func TestStormUsage(t *testing.T) {
	testenv.Prove(t)
	for _, args := range [][]string{{"--preset", "tea"}, {"--clients", "0"}, {"--clients", "1000000"}} {
		if o := run(t, append([]string{"storm"}, args...)...).want(t, 2); !strings.Contains(o.stderr, "Try: ") || o.stdout != "" {
			t.Errorf("%v: %+v", args, o)
		}
	}
	if o := run(t, "storm", "--preset", "outage", "--html", filepath.Join(t.TempDir(), "no", "file")).want(t, 1); !strings.Contains(o.stderr, "Try: --html") {
		t.Errorf("%+v", o)
	}
}
