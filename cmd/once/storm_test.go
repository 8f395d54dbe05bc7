package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/oncelib/once/internal/testenv"
)

// One seed is one storm: two processes write the same bytes.
func TestStormIsDecidedByItsSeed(t *testing.T) {
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
	for _, part := range []string{"<svg", "prefers-color-scheme: dark", "--seed 7", "once/retry", `aria-label="attempts per call, over time"`, `aria-label="time until the service has recovered"`} {
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

// TestStormSaysItsVerdict: on an ordinary day retries help, and in a brownout they do harm; the sentences are made of the numbers that the table and the JSON have.
// What is neither a success nor a failure is in both.
func TestStormSaysItsVerdict(t *testing.T) {
	testenv.Both(t)
	t.Run("ordinary", func(t *testing.T) {
		testenv.Cell(t, testenv.InTest)
		wantVerdict(t, "ordinary", "In this simulation, retries help.")
	})
	t.Run("herd", func(t *testing.T) {
		testenv.Cell(t, testenv.InProve)
		wantVerdict(t, "herd", "In this simulation, retries do harm without a budget")
	})
}

func wantVerdict(t *testing.T, preset, want string) {
	t.Helper()
	args := []string{"storm", "--preset", preset, "--clients", "5"}
	said := run(t, args...).want(t, 0).stdout
	var answer struct {
		Scenarios []struct {
			Verdict string
			Results []struct {
				Name                                            string
				Intents, Succeeded, Failed, Open, Unsent, Queue int
			}
		}
	}
	if err := json.Unmarshal([]byte(run(t, append(args, "--json")...).want(t, 0).stdout), &answer); err != nil {
		t.Fatal(err)
	}
	o := answer.Scenarios[0]
	if !strings.HasPrefix(o.Verdict, want) || !strings.HasSuffix(strings.TrimSpace(said), o.Verdict) {
		t.Errorf("%s: the verdict is %q, want %q, at the end of\n%s", preset, o.Verdict, want, said)
	}
	left := 0
	for _, r := range o.Results {
		if r.Intents != r.Succeeded+r.Failed+r.Open || r.Unsent > r.Failed {
			t.Errorf("%s, %s: the numbers do not add up: %+v", preset, r.Name, r)
		}
		left += r.Open + r.Unsent
		share := fmt.Sprintf("%.1f %%", 100*float64(r.Succeeded)/float64(r.Intents))
		row := regexp.MustCompile(fmt.Sprintf(`(?m)^ +\S.* +%s +%d +%d .* %s$`, regexp.QuoteMeta(share), r.Open, r.Unsent, regexp.QuoteMeta(r.Name)))
		if !row.MatchString(said) {
			t.Errorf("%s has no row of %s with %s, %d and %d:\n%s", preset, r.Name, share, r.Open, r.Unsent, said)
		}
		if (r.Name == "no retries" || r.Name == "full jitter" || r.Name == "once/retry") && !strings.Contains(o.Verdict, share) {
			t.Errorf("%s: the verdict has no %s of %s: %s", preset, share, r.Name, o.Verdict)
		}
	}
	if left == 0 {
		t.Errorf("vacuous: %s has left nothing out", preset)
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
