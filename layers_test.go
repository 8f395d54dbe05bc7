package once_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	layers = regexp.MustCompile("(?s)\n## Layers\n\n```\n(.*?)\n```")
	layer  = regexp.MustCompile(`^(\w[^\s,]*(?:, [^\s,]+)*)(?: |$)`)
)

// TestLayers: a package imports only packages that DESIGN.md lists below it, or beside it in the
// same line, and each package is listed, or is in a folder of one that is.
func TestLayers(t *testing.T) {
	text, err := os.ReadFile("DESIGN.md")
	if err != nil {
		t.Fatal(err)
	}
	block := layers.FindSubmatch(text)
	if block == nil {
		t.Fatal("DESIGN.md has no layers")
	}
	at := map[string]int{}
	for i, line := range strings.Split(string(block[1]), "\n") {
		if names := layer.FindStringSubmatch(line); names != nil {
			for name := range strings.SplitSeq(names[1], ", ") {
				at[name] = i
			}
		}
	}
	const servesTests = -1 // DESIGN.md names them after the list
	for _, name := range []string{"internal/testenv", "internal/faultnet", "internal/duplicates", "internal/release"} {
		at[name] = servesTests
	}
	arrows := 0
	for pkg, imported := range importsOf(t) {
		for name := range imported {
			from, to := listed(at, pkg), listed(at, name)
			switch {
			case at[from] == servesTests, at[to] == servesTests:
			case from == "" || to == "":
				t.Errorf("%s imports %s, and DESIGN.md does not list both. Try: a line in its layers", pkg, name)
			case from != to && at[from] > at[to]:
				t.Errorf("%s imports %s, which stands above it in the layers of DESIGN.md", pkg, name)
			}
			arrows++
		}
	}
	if arrows < 200 {
		t.Errorf("vacuous: %d imports", arrows)
	}
}

// listed returns the name under which a package is listed: its own, or that of a folder.
func listed(at map[string]int, pkg string) string {
	for ; pkg != "."; pkg = path.Dir(pkg) {
		if _, ok := at[pkg]; ok {
			return pkg
		}
	}
	return ""
}

// importsOf returns which packages of this repository each of them imports outside of its tests.
func importsOf(t *testing.T) map[string]map[string]bool {
	t.Helper()
	const module = "github.com/oncelib/once"
	all := map[string]map[string]bool{}
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != "." && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case d.IsDir(), !strings.HasSuffix(file, ".go"), strings.HasSuffix(file, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		pkg := nameOf(filepath.ToSlash(filepath.Dir(file)))
		for _, spec := range f.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if rest, ours := strings.CutPrefix(name, module); ours {
				if all[pkg] == nil {
					all[pkg] = map[string]bool{}
				}
				all[pkg][nameOf(strings.TrimPrefix(rest, "/"))] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// nameOf is the name of the package of a folder: the root has none of its own.
func nameOf(folder string) string {
	if folder == "" || folder == "." {
		return "once"
	}
	return folder
}
