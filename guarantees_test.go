package once_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
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

// TestPromises: whatever a row begins with, it is one.
func TestPromises(t *testing.T) {
	want := []string{"| A. | `x` |", "| 1205. | x |", "| `code` | x |", "| lower | x |", "|bare|", "| no end"}
	table := "# Title\n\n| promise | proven by |\n|---|:-- |\n"
	if got := promises(table + strings.Join(want[:3], "\n") + "\n\n" + table + "  " + strings.Join(want[3:], "\n")); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// TestEveryGuaranteeNamesATest: a promise whose test is not there is none.
func TestEveryGuaranteeNamesATest(t *testing.T) { everyLineNamesATest(t, "GUARANTEES.md", 25) }

// TestEveryFailureNamesATest: so is an answer to "what happens if".
func TestEveryFailureNamesATest(t *testing.T) { everyLineNamesATest(t, "docs/failures.md", 20) }

func everyLineNamesATest(t *testing.T, file string, least int) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := promises(string(text))
	if len(lines) < least {
		t.Fatalf("only %d promises found", len(lines))
	}
	sources := map[string]string{}
	for _, line := range lines {
		tests := guaranteed.FindAllStringSubmatch(line, -1)
		if len(tests) == 0 && !regexp.MustCompile(`\(bench/RESULTS\.md\)`).MatchString(line) {
			t.Errorf("no test: %s", line)
		}
		for _, m := range tests {
			pkg, name := m[1], m[2]
			if _, read := sources[pkg]; !read {
				files, err := filepath.Glob(filepath.Join(".", pkg, "*.go"))
				if err != nil || len(files) == 0 {
					t.Errorf("no package %q: %v", pkg, err)
				}
				for _, f := range files {
					b, err := os.ReadFile(f)
					if err != nil {
						t.Fatal(err)
					}
					sources[pkg] += string(b)
				}
			}
			if !regexp.MustCompile(`(?m)^func ` + name + `[(\[]`).MatchString(sources[pkg]) {
				t.Errorf("%s has no %s: %s", pkg, name, line)
			}
		}
	}
}
