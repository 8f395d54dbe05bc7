package onceotel_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPageListsEveryAttribute: docs/tracing.md has a row for each attribute of this package, and for no other one.
func TestPageListsEveryAttribute(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/tracing.md")
	must(t, err)
	_, table, _ := strings.Cut(string(page), "## Attributes")
	table, _, _ = strings.Cut(table, "HTTP and messaging")
	files, err := filepath.Glob("*.go")
	must(t, err)
	known := map[string]bool{}
	for _, file := range files {
		source, err := os.ReadFile(file)
		must(t, err)
		for _, found := range regexp.MustCompile(`attribute\.Key\("(once\.[a-z_.]+)"\)`).FindAllSubmatch(source, -1) {
			known[string(found[1])] = true
			if !strings.Contains(table, "`"+string(found[1])+"`") {
				t.Errorf("%s is not in the table", found[1])
			}
		}
	}
	if len(known) < 10 {
		t.Errorf("only %d attributes", len(known))
	}
	for row := range strings.SplitSeq(table, "\n") {
		cells := strings.Split(row, "|")
		if len(cells) < 4 {
			continue
		}
		for _, found := range regexp.MustCompile("`(once\\.[a-z_.]+)`").FindAllStringSubmatch(cells[1], -1) {
			if !known[found[1]] {
				t.Errorf("the table has %s, which no span has", found[1])
			}
		}
	}
}
