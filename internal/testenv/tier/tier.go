// Package tier lists the tests of a tree with the command that runs them: make test, make prove, or both.
//
// A test declares its tier by its first statement: [testenv.Prove], [testenv.Core] or [testenv.Both]. The list is read from the source,
// which takes a second. Tests without a declaration would otherwise have to run before it is known that they have none. A
// declaration anywhere else is an error. make prove compares the tests that have run with the list.
package tier

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/oncelib/once/internal/testenv"
)

// Test is a top-level test or a fuzz target.
type Test struct {
	Dir, Name string         // Dir is relative to the root of the tree, with slashes
	Tiers     []testenv.Tier // the tiers that run the test
	Core      bool           // each run of make prove runs it
}

// Read lists the tests of all modules of the tree below root, sorted by directory. Its error names each declaration of a tier that is
// not the first statement of a top-level test.
func Read(root string) ([]Test, error) {
	var list []Test
	var wrong []error
	tree := os.DirFS(root)
	err := fs.WalkDir(tree, ".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if n := d.Name(); file != "." && (n[0] == '.' || n[0] == '_' || n == "testdata" || n == "node_modules") {
				return fs.SkipDir
			}
			return nil
		case path.Ext(file) != ".go":
			return nil
		}
		src, err := fs.ReadFile(tree, file)
		if err != nil {
			return err
		}
		tests, bad, err := read(file, src)
		list, wrong = append(list, tests...), append(wrong, bad...)
		return err
	})
	slices.SortFunc(list, func(a, b Test) int {
		return strings.Compare(a.Dir+"\x00"+a.Name, b.Dir+"\x00"+b.Name)
	})
	return list, errors.Join(append(wrong, err)...)
}

// tiers maps the functions of package testenv to the tiers that they declare.
var tiers = map[string][]testenv.Tier{
	"Prove": {testenv.InProve},
	"Core":  {testenv.InProve},
	"Both":  {testenv.InTest, testenv.InProve},
}

const home = "internal/testenv"

// read lists the tests of one file.
func read(name string, src []byte) (list []Test, wrong []error, err error) {
	dir, isTest := path.Dir(name), strings.HasSuffix(name, "_test.go")
	if !isTest && (dir == home || !bytes.Contains(src, []byte(home))) {
		return nil, nil, nil
	}
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, name, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, nil, err
	}
	is := declarations(f, dir == home)
	right := map[token.Pos]bool{} // the positions of valid declarations
	for _, d := range f.Decls {
		fn, isFunc := d.(*ast.FuncDecl)
		if !isFunc || !isTest || !runs(fn) {
			continue
		}
		test := Test{Dir: dir, Name: fn.Name.Name, Tiers: []testenv.Tier{testenv.InTest}}
		if call := first(fn); call != nil {
			if d := is(call.Fun); d != "" {
				test.Tiers, test.Core, right[call.Pos()] = tiers[d], d == "Core", true
			}
		}
		list = append(list, test)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if d := is(n); d != "" && !right[n.Pos()] {
			wrong = append(wrong, fmt.Errorf("%s: testenv.%s is not the first statement of a top-level test, so no tier would run the test.\n"+
				"Try: begin the top-level test with it; in a subtest, call testenv.Cell", files.Position(n.Pos()), d))
		}
		return true
	})
	return list, wrong, nil
}

// declarations returns a function that returns the declaration which a node of f names, or "". In package testenv itself,
// declarations have no qualifier.
func declarations(f *ast.File, atHome bool) func(ast.Node) string {
	qualifier := ""
	for _, spec := range f.Imports {
		if strings.HasSuffix(strings.Trim(spec.Path.Value, `"`), "/"+home) {
			if qualifier = path.Base(home); spec.Name != nil {
				qualifier = spec.Name.Name
			}
		}
	}
	return func(n ast.Node) string {
		var name *ast.Ident
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, is := n.X.(*ast.Ident); is && x.Name == qualifier {
				name = n.Sel
			}
		case *ast.Ident:
			if atHome || qualifier == "." {
				name = n
			}
		}
		if name == nil || tiers[name.Name] == nil {
			return ""
		}
		return name.Name
	}
}

// runs reports whether go test runs a function.
func runs(fn *ast.FuncDecl) bool {
	for _, prefix := range []string{"Test", "Fuzz"} {
		if rest, is := strings.CutPrefix(fn.Name.Name, prefix); is {
			letter, _ := utf8.DecodeRuneInString(rest)
			return fn.Recv == nil && fn.Name.Name != "TestMain" && !unicode.IsLower(letter)
		}
	}
	return false
}

// first returns the first statement of a function, if it is a call whose only argument is the function's parameter.
func first(fn *ast.FuncDecl) *ast.CallExpr {
	params := fn.Type.Params.List
	if fn.Body == nil || len(fn.Body.List) == 0 || len(params) != 1 || len(params[0].Names) != 1 {
		return nil
	}
	statement, _ := fn.Body.List[0].(*ast.ExprStmt)
	if statement == nil {
		return nil
	}
	call, _ := statement.X.(*ast.CallExpr)
	if call == nil || len(call.Args) != 1 {
		return nil
	}
	if arg, _ := call.Args[0].(*ast.Ident); arg == nil || arg.Name != params[0].Names[0].Name {
		return nil
	}
	return call
}
