package once_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

var (
	guaranteed = regexp.MustCompile("`([a-z/]*)\\.((?:Test|Fuzz|test)[A-Za-z0-9]+)`")
	promise    = regexp.MustCompile(`(?m)^\| [A-Z].*\|$`)
)

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
	lines := promise.FindAll(text, -1)
	if len(lines) < least {
		t.Fatalf("only %d promises found", len(lines))
	}
	sources := map[string]string{}
	for _, line := range lines {
		tests := guaranteed.FindAllSubmatch(line, -1)
		if len(tests) == 0 && !regexp.MustCompile(`\(bench/RESULTS\.md\)`).Match(line) {
			t.Errorf("no test: %s", line)
		}
		for _, m := range tests {
			pkg, name := string(m[1]), string(m[2])
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
