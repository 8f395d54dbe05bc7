package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/oncelib/once/internal/testenv/tier"
)

// TestLinesNameTests: each line of the card is a test that there is.
func TestLinesNameTests(t *testing.T) {
	tests, err := tier.Read("../../../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines() {
		top, _, _ := strings.Cut(l.run, "/")
		if !slices.ContainsFunc(tests, func(x tier.Test) bool { return x.Dir == l.dir && regexp.MustCompile(top).MatchString(x.Name) }) {
			t.Errorf("%s has no test %s", l.dir, top)
		}
	}
}

// TestLotDrawsEachLine: each line that ends by itself is drawn by some tree, and one tree draws one line.
func TestLotDrawsEachLine(t *testing.T) {
	drawn := map[string]bool{}
	for i := range 2000 {
		lot := strconv.Itoa(i)
		l, seed := draw(lot)
		again, seedAgain := draw(lot)
		if l.once || again.run != l.run || again.dir != l.dir || seed != seedAgain || seed < 1 {
			t.Fatalf("lot %s: %s %s, seed %d; again %s, seed %d", lot, l.dir, l.run, seed, again.run, seedAgain)
		}
		drawn[l.dir+l.run] = true
	}
	for _, l := range lines() {
		if !l.once && !drawn[l.dir+l.run] {
			t.Errorf("%s %s is never drawn", l.dir, l.run)
		}
	}
}

// TestCardCountsRunsAndViolations: a line that passes is counted, one that fails is a violation with its output and its seed, and one that counts nothing
// is a violation, too.
func TestCardCountsRunsAndViolations(t *testing.T) {
	t.Chdir(t.TempDir())
	const source = `package x

import (
	"os"
	"testing"
)

func count(text string) {
	f, _ := os.OpenFile(os.Getenv("ONCE_COUNTS"), os.O_APPEND|os.O_WRONLY, 0)
	f.WriteString(text)
	f.Close()
}
func TestGood(t *testing.T) {
	t.Run("a b", func(t *testing.T) { count("3 kills\n4 kills\n2 cuts\n") })
	t.Run("other", func(t *testing.T) { t.Error("not asked for") })
}
func TestBad(t *testing.T)   { count("1 kills\n"); t.Error("two effects") }
func TestEmpty(t *testing.T) {}
`
	for name, text := range map[string]string{"go.mod": "module x\n\ngo 1.25\n", "x_test.go": source} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(outputs, 0o700); err != nil {
		t.Fatal(err)
	}
	c := &card{temp: t.TempDir(), commit: "abc"}
	c.binaries = tier.NewBinaries(c.temp)
	list := line{claim: "It is good", dir: ".", run: "^TestGood$"}.on("a b")
	list = append(list, line{claim: "It is bad", dir: ".", run: "^TestBad$", once: true}, line{claim: "It is empty", dir: ".", run: "^TestEmpty$"})
	for _, l := range list {
		c.rows = append(c.rows, &row{line: l, counts: map[string]int{}})
	}
	c.work(t.Context())
	page := c.String()
	for _, want := range []string{
		"**3 runs of 3 lines; 2 violations.** Together: 2 cuts; 8 kills.",
		"| It is good | a b | 1 | 2 cuts; 7 kills | 0 | `ONCE_TORTURE_SEED=1 go test -count=1 -run '^TestGood$/^a_b$' ./.` |",
		"| It is bad | all of the test | 1 | 1 kills | **1**, seeds [1] |",
		"| It is empty | all of the test | 1 |  | **1**, seeds [1] |",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the card does not have %q:\n%s", want, page)
		}
	}
	if text, err := os.ReadFile(filepath.Join(outputs, ".-TestBad-1.txt")); err != nil || !strings.Contains(string(text), "two effects") {
		t.Errorf("%q, %v", text, err)
	}
}
