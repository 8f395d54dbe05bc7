package once_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/internal/testenv/tier"
)

var (
	guaranteed = regexp.MustCompile("`([a-z/]*)\\.((?:Test|Fuzz|test)[A-Za-z0-9]+)`")
	separator  = regexp.MustCompile(`^\|[ :|]*-[-:| ]*$`)
)

// promises are the rows of all tables, without the heads.
func promises(text string) (rows []string) {
	for line := range strings.Lines(text) {
		switch line = strings.TrimSpace(line); {
		case !strings.HasPrefix(line, "|"):
		case separator.MatchString(line) && len(rows) > 0: // the row above was a head
			rows = rows[:len(rows)-1]
		default:
			rows = append(rows, line)
		}
	}
	return rows
}

// TestPromisesAreAllRowsOfATable: whatever a row begins with, it is one.
func TestPromisesAreAllRowsOfATable(t *testing.T) {
	want := []string{"| A. | `x` |", "| 1205. | x |", "| `code` | x |", "| lower | x |", "|bare|", "| no end"}
	table := "# Title\n\n| promise | proven by |\n|---|:-- |\n"
	if got := promises(table + strings.Join(want[:3], "\n") + "\n\n" + table + "  " + strings.Join(want[3:], "\n")); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// TestEveryGuaranteeNamesATest: a promise whose test is not there is none. The last column
// says which command runs it.
func TestEveryGuaranteeNamesATest(t *testing.T) {
	for file, least := range map[string]int{"GUARANTEES.md": 25, "PROOFS.md": 500} {
		rowsHaveTheirTiers(t, file, everyLineNamesATest(t, file, least))
	}
}

// TestGuaranteesAreOnePage: what a user reads before the first call has no more than 60 rows.
func TestGuaranteesAreOnePage(t *testing.T) {
	text, err := os.ReadFile("GUARANTEES.md")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(promises(string(text))); n > 60 {
		t.Errorf("GUARANTEES.md has %d rows. Try: a row of PROOFS.md for a case of a promise that is there", n)
	}
}

// rowsHaveTheirTiers compares the last column of a page, or writes it.
func rowsHaveTheirTiers(t *testing.T, file, text string) {
	t.Helper()
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(withTier(t, line))
	}
	switch want := b.String(); {
	case want == text:
	case *update:
		if err := os.WriteFile(file, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("a row of %s does not say in which tier its tests run. Try: go test -run TestEveryGuaranteeNamesATest -update .", file)
	}
}

// tierColumn is what stands in the last cell of a row.
var tierColumn = regexp.MustCompile(` (test|prove|test, prove|runs in|make target) \|$`)

// withTier is a line of such a page with its last cell as it should be.
func withTier(t *testing.T, line string) string {
	t.Helper()
	row := strings.TrimRight(line, "\n")
	end := line[len(row):]
	if !strings.HasPrefix(row, "|") {
		return line
	}
	if separator.MatchString(row) {
		return "|---|---|---|" + end
	}
	row = tierColumn.ReplaceAllString(row, "")
	tests := guaranteed.FindAllStringSubmatch(row, -1)
	if len(tests) == 0 {
		if strings.Contains(row, "proven by") {
			return row + " make target |" + end
		}
		return row + " test |" + end
	}
	runs := map[testenv.Tier]bool{}
	for _, m := range tests {
		for _, tier := range tiersOf(t, m[1], m[2]) {
			runs[tier] = true
		}
	}
	var cell []string
	for _, tier := range []testenv.Tier{testenv.InTest, testenv.InProve} {
		if runs[tier] {
			cell = append(cell, string(tier))
		}
	}
	return row + " " + strings.Join(cell, ", ") + " |" + end
}

// TestEveryTestHasATier: a tier that is declared at the wrong place would keep a test out of all.
func TestEveryTestHasATier(t *testing.T) {
	if _, err := tiers(); err != nil {
		t.Error(err)
	}
}

// tiers lists the tests of the tree, by directory and name.
var tiers = sync.OnceValues(func() (map[string][]testenv.Tier, error) {
	list, err := tier.Read(".")
	m := map[string][]testenv.Tier{}
	for _, test := range list {
		m[test.Dir+"."+test.Name] = test.Tiers
	}
	return m, err
})

// tiersOf are those that run a test. What the conformance suite calls runs in make test, on every store.
func tiersOf(t *testing.T, pkg, name string) []testenv.Tier {
	t.Helper()
	known, err := tiers()
	if err != nil {
		t.Fatal(err)
	}
	run := known[path.Clean(pkg)+"."+name]
	if run == nil && pkg == "store/storetest" && helpers(t, pkg)[name] {
		run = []testenv.Tier{testenv.InTest}
	}
	if run == nil {
		t.Errorf("no tier runs a test %s.%s", pkg, name)
	}
	return run
}

// TestEveryFailureNamesATest: so is an answer to "what happens if".
func TestEveryFailureNamesATest(t *testing.T) { everyLineNamesATest(t, "docs/failures.md", 20) }

// TestOrderOfMiddlewares: the second table of that page names the tests.
func TestOrderOfMiddlewares(t *testing.T) {
	text, err := os.ReadFile("docs/middleware.md")
	if err != nil {
		t.Fatal(err)
	}
	_, failures, _ := strings.Cut(string(text), "| what happens if |")
	everyRowNamesATest(t, promises("| what happens if |"+failures), 7)
}

func everyLineNamesATest(t *testing.T, file string, least int) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	everyRowNamesATest(t, promises(string(text)), least)
	return string(text)
}

func everyRowNamesATest(t *testing.T, lines []string, least int) {
	t.Helper()
	if len(lines) < least {
		t.Fatalf("only %d promises found", len(lines))
	}
	for _, line := range lines {
		tests := guaranteed.FindAllStringSubmatch(line, -1)
		if len(tests) == 0 && !regexp.MustCompile(`\(bench/RESULTS\.md\)`).MatchString(line) {
			t.Errorf("no test: %s", line)
		}
		for _, m := range tests {
			if tiersOf(t, m[1], m[2]) == nil {
				t.Errorf("in this row: %s", line)
			}
		}
	}
}

var function = regexp.MustCompile(`(?m)^func (test\w+)[(\[]`)

// helpers are the functions of a package whose names begin with test.
func helpers(t *testing.T, pkg string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(pkg, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range function.FindAllStringSubmatch(string(b), -1) {
			found[m[1]] = true
		}
	}
	return found
}
