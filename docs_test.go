package once_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	origin = regexp.MustCompile(`^<!-- ([\w/.]+) -->$`)
	link   = regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
	fenced = regexp.MustCompile("(?s)```.*?```")
)

// TestDocsAreTheExamples: Go code in docs/ stands in a file that is compiled and tested,
// which is named in the line above it, and links lead somewhere. "..." in the code stands
// for lines that are left out. In the README code may stand for itself.
func TestDocsAreTheExamples(t *testing.T) {
	pages, err := filepath.Glob("docs/*.md")
	if err != nil || len(pages) < 5 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	pages = append(pages, "README.md", "llms.txt")
	blocks := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range link.FindAllSubmatch(fenced.ReplaceAll(text, nil), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), string(l[1]))); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
		lines := stripped(string(text))
		for i, line := range lines {
			if line != "```go" {
				continue
			}
			blocks++
			from := origin.FindStringSubmatch(lines[i-1])
			if from == nil && page == "README.md" {
				continue
			}
			if from == nil {
				t.Errorf("%s:%d: no file is named in the line above the code", page, i+1)
				continue
			}
			source, err := os.ReadFile(from[1])
			if err != nil {
				t.Errorf("%s:%d: %v", page, i+1, err)
			}
			missing(t, page, lines[i+1:], strings.Join(stripped(string(source)), "\n"))
		}
	}
	if blocks < 15 {
		t.Errorf("only %d blocks of code", blocks)
	}
}

// TestMapForMachines: llms.txt leads to each page of docs/. That its links lead somewhere is in TestDocsAreTheExamples.
func TestMapForMachines(t *testing.T) {
	pages, err := filepath.Glob("docs/*.md")
	if err != nil || len(pages) < 5 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	text, err := os.ReadFile("llms.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		if !strings.Contains(string(text), "]("+filepath.ToSlash(page)+")") {
			t.Errorf("llms.txt does not lead to %s", page)
		}
	}
}

// missing reports what of the block at the beginning of lines is not in source.
func missing(t *testing.T, page string, lines []string, source string) {
	t.Helper()
	var part []string
	for _, line := range lines {
		if line != "```" && line != "..." {
			part = append(part, line)
			continue
		}
		if p := strings.Trim(strings.Join(part, "\n"), "\n"); !strings.Contains(source, p) {
			t.Errorf("%s: not in its file:\n%s", page, p)
		}
		if part = nil; line == "```" {
			return
		}
	}
}

// stripped returns the lines of text without their indentation.
func stripped(text string) []string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimSpace(l)
	}
	return lines
}
