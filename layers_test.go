package once_test

import (
	"cmp"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// layer is a line of layers.txt.
type layer struct {
	floor      int // counted from the top
	neighbours []string
}

// TestPackagesImportDownwards: a package imports packages of floors below its own, and those of its floor that
// layers.txt names. Each package has a line there, and each line a package.
func TestPackagesImportDownwards(t *testing.T) {
	text, err := os.ReadFile("layers.txt")
	if err != nil {
		t.Fatal(err)
	}
	imports := importsOf(t)
	if len(imports) < 80 {
		t.Errorf("vacuous: %d packages", len(imports))
	}
	for _, wrong := range misplaced(string(text), imports) {
		t.Error(wrong)
	}
}

// TestProgramsLinkNoUnusedCapability: a program that has metrics of an engine, or a client that retries, links no capability that it does not use. Only tests link package oncetest.
func TestProgramsLinkNoUnusedCapability(t *testing.T) {
	imports := importsOf(t)
	for from, unwanted := range map[string][]string{
		"onceprom": {"outbox", "inbox", "retry", "deadletter", "lease", "oncehttp"},
		"retry":    {"once", "outbox", "inbox"},
		"message":  {"once", "store", "outbox", "inbox"},
		"cmd/once": {"oncetest"},
		"oncehttp": {"oncetest"},
		"oncegrpc": {"oncetest"},
	} {
		linked := map[string]bool{}
		for todo := []string{from}; len(todo) > 0; todo = todo[1:] {
			if !linked[todo[0]] {
				linked[todo[0]] = true
				todo = append(todo, imports[todo[0]]...)
			}
		}
		if len(linked) < 2 {
			t.Errorf("%s: vacuous: %v", from, linked)
		}
		for _, pkg := range unwanted {
			if linked[pkg] {
				t.Errorf("%s links %s. Try: what both share in a leaf", from, pkg)
			}
		}
	}
}

// TestMisplacedImportsAreFound: what layers.txt does not allow is found.
func TestMisplacedImportsAreFound(t *testing.T) {
	const text = "# two floors\n\ntop: above\na  [b] with a neighbour\nb\nc/...  a folder\n\nbottom: below\nd\n"
	fine := map[string][]string{"a": {"b", "d"}, "b": {"d"}, "c": {"c/x"}, "c/x": {"d"}, "d": nil}
	if got := misplaced(text, fine); len(got) != 0 {
		t.Error(got)
	}
	for name, change := range map[string]map[string][]string{
		"upwards":              {"d": {"a"}},
		"a neighbour":          {"b": {"d", "a"}},
		"a neighbour's folder": {"b": {"c/x"}},
		"not listed":           {"e": {"d"}},
		"no longer imported":   {"a": {"d"}},
	} {
		imports := map[string][]string{}
		for _, some := range []map[string][]string{fine, change} {
			maps.Copy(imports, some)
		}
		if got := misplaced(text, imports); len(got) != 1 {
			t.Errorf("%s: %q, want one complaint", name, got)
		}
	}
	if got := misplaced(text+"e\n", fine); len(got) != 1 {
		t.Errorf("a line without a package: %q, want one complaint", got)
	}
}

// misplaced compares imports with the text of layers.txt and returns what is wrong.
func misplaced(text string, imports map[string][]string) (wrong []string) {
	layers := readLayers(text)
	line := func(pkg string) string {
		for name := pkg; name != "."; name = path.Dir(name) {
			if _, ok := layers[name+"/..."]; ok {
				return name + "/..."
			}
		}
		return pkg
	}
	used := map[string]bool{}
	for pkg, list := range imports {
		from, ok := layers[line(pkg)]
		if !ok {
			wrong = append(wrong, pkg+" is not in layers.txt. Try: a line on the lowest floor above all that it imports")
			continue
		}
		used[line(pkg)] = true
		for _, name := range list {
			to, ok := layers[line(name)]
			switch {
			case !ok, to.floor > from.floor, line(name) == line(pkg):
			case to.floor < from.floor:
				wrong = append(wrong, fmt.Sprintf("%s imports %s, which is on a floor above it. Try: a leaf in internal/base for what it needs", pkg, name))
			case !slices.Contains(from.neighbours, name):
				wrong = append(wrong, fmt.Sprintf("%s imports %s of its own floor. Try: what both share on a floor below, or its name in layers.txt", pkg, name))
			}
		}
		for _, name := range from.neighbours {
			if !slices.Contains(list, name) {
				wrong = append(wrong, fmt.Sprintf("layers.txt lets %s import %s, and it does not", pkg, name))
			}
		}
	}
	for name := range layers {
		if !used[name] {
			wrong = append(wrong, name+" is in layers.txt, and is no package")
		}
	}
	slices.Sort(wrong)
	return wrong
}

// readLayers reads the lines of layers.txt, by package.
func readLayers(text string) map[string]layer {
	layers, floor := map[string]layer{}, 0
	for line := range strings.Lines(text) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		rest = strings.TrimSpace(rest)
		switch {
		case name == "", name == "#":
		case strings.HasSuffix(name, ":"):
			floor++
		default:
			l := layer{floor: floor}
			if list, ok := strings.CutPrefix(rest, "["); ok {
				list, _, _ = strings.Cut(list, "]")
				l.neighbours = strings.Fields(list)
			}
			layers[name] = l
		}
	}
	return layers
}

// importsOf returns which packages of this repository each of them imports outside of its tests: in all
// modules, and in files for any system, of which go list would show only those for this one.
func importsOf(t *testing.T) map[string][]string {
	t.Helper()
	const module = "github.com/oncelib/once"
	nameOf := func(folder string) string { return cmp.Or(strings.Trim(folder, "./"), "once") }
	all := map[string][]string{}
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
		list := all[pkg]
		for _, spec := range f.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if rest, ours := strings.CutPrefix(name, module); ours && !slices.Contains(list, nameOf(rest)) {
				list = append(list, nameOf(rest))
			}
		}
		all[pkg] = list
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
