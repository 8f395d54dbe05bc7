package once_test

import (
	"io/fs"
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
	pages = append(pages, "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "llms.txt")
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

// TestEachPageIsOfOneKind: docs/README.md, of which the site makes its sidebar, has four kinds of page, and each page is of one.
func TestEachPageIsOfOneKind(t *testing.T) {
	pages, err := filepath.Glob("docs/*.md")
	if err != nil || len(pages) < 50 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	text, err := os.ReadFile("docs/README.md")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for part := range strings.SplitSeq(string(text), "\n## ") {
		kind, list, _ := strings.Cut(part, "\n")
		for _, l := range link.FindAllStringSubmatch(list, -1) {
			if kind == "Start" || kind == "How to" || kind == "Reference" || kind == "Why" {
				kinds["docs/"+l[1]]++
			}
		}
	}
	for _, page := range pages {
		if n := kinds[filepath.ToSlash(page)]; n != 1 && page != filepath.Join("docs", "README.md") {
			t.Errorf("docs/README.md has %s %d times.\nTry: one line for it, below Start, How to, Reference or Why", page, n)
		}
	}
}

// TestPagesAreShort: the README and each page of docs/ have at most 200 lines.
func TestPagesAreShort(t *testing.T) {
	pages, err := filepath.Glob("docs/*.md")
	if err != nil || len(pages) < 50 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, page := range append(pages, "README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), "\n"); n > 200 {
			t.Errorf("%s has %d lines, of at most 200.\nTry: a part of it that can be read alone becomes a page", page, n)
		}
	}
}

// TestChooseNamesEachPackage: docs/choose.md says of each package that can be imported who needs it.
func TestChooseNamesEachPackage(t *testing.T) {
	page, err := os.ReadFile("docs/choose.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	err = filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || path == "." {
			return err
		}
		switch d.Name() {
		case "internal", "testdata", "node_modules", "examples", "bench", "integration", "cmd", "models", "docs":
			return fs.SkipDir
		}
		if strings.HasPrefix(d.Name(), ".") {
			return fs.SkipDir
		}
		files, err := filepath.Glob(filepath.Join(path, "*.go"))
		if len(files) == 0 || err != nil {
			return err
		}
		found++
		if !strings.Contains(string(page), "`"+filepath.ToSlash(path)+"`") {
			t.Errorf("docs/choose.md does not say who needs %s", path)
		}
		return nil
	})
	if err != nil || found < 40 {
		t.Errorf("%d packages, %v", found, err)
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
