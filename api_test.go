package once_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// firstUse are the packages that the first program of a user imports.
var firstUse = []string{".", "store", "store/pgxstore", "oncehttp"}

// TestAPI: what each package exports, as a number, is in testdata/api.txt, so that a name which is exported by the way is
// seen. First use has no more than 225.
func TestAPI(t *testing.T) {
	counts := map[string]int{}
	must(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (slices.Contains([]string{"internal", "testdata", "cmd", "bench", "examples", "integration"}, d.Name()) || len(path) > 1 && strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case !d.IsDir() && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			counts[filepath.ToSlash(filepath.Dir(path))] += exported(f)
		}
		return nil
	}))
	var list strings.Builder
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintln(&list, name, counts[name])
	}
	want, err := os.ReadFile("testdata/api.txt")
	must(t, err)
	if got := list.String(); got != string(want) {
		t.Errorf("testdata/api.txt does not have the numbers of exported names. If each new name is meant for users, write:\n%s", got)
	}
	sum := 0
	for _, name := range firstUse {
		sum += counts[name]
	}
	if sum > 225 {
		t.Errorf("first use has %d names", sum)
	}
}

// exported counts functions, methods of exported types, types, constants and variables.
func exported(f *ast.File) (n int) {
	count := func(names ...*ast.Ident) {
		for _, name := range names {
			if name.IsExported() {
				n++
			}
		}
	}
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil || receiver(d.Recv.List[0].Type).IsExported() {
				count(d.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					count(s.Name)
				case *ast.ValueSpec:
					count(s.Names...)
				}
			}
		}
	}
	return n
}

// receiver returns the name of the type of a method.
func receiver(e ast.Expr) *ast.Ident {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	}
	return e.(*ast.Ident)
}
