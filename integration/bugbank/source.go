package bugbank

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// declaration is one at the top of a file: a function, a constant, a variable or a type.
type declaration struct {
	file       string // path, from the root, with slashes
	pkg        string // the package's name
	name       string // "New", "(*call).settle", "DefaultRetain"
	src        []byte // of the whole file
	start, end int    // in src, without the comment above it

	fn     *ast.FuncDecl // nil: it is no function
	offset func(token.Pos) int
}

func (d *declaration) String() string { return d.pkg + "." + d.name + " (" + d.file + ")" }
func (d *declaration) text() []byte   { return d.src[d.start:d.end] }

// source is the declarations of a tree, by name.
type source struct {
	code  map[string][]*declaration // by "name" and by "package.name"
	tests map[string]*declaration   // by "folder name": functions of test files
	all   []*declaration            // those in code, each once, in the order of their files
}

// loadTree reads the tree at root.
func loadTree(root string) (*source, error) {
	files := map[string][]byte{}
	err := filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && name != root && (strings.HasPrefix(e.Name(), ".") || e.Name() == "testdata" || e.Name() == "node_modules"):
			return fs.SkipDir
		case e.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		src, err := os.ReadFile(name) //nolint:gosec // the tree is ours
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		files[filepath.ToSlash(rel)] = src
		return err
	})
	if err != nil {
		return nil, err
	}
	return parse(files)
}

// parse reads the declarations of files, by their paths.
func parse(files map[string][]byte) (*source, error) {
	s := &source{code: map[string][]*declaration{}, tests: map[string]*declaration{}}
	var names []string
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if !builtHere(name, files[name]) {
			continue
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, name, files[name], parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		s.add(fset, name, files[name], f)
	}
	return s, nil
}

// builtHere reports whether this system compiles the file.
func builtHere(name string, src []byte) bool {
	ctx := build.Default
	ctx.OpenFile = func(string) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(src)), nil }
	ok, err := ctx.MatchFile(path.Dir(name), path.Base(name))
	return ok && err == nil
}

func (s *source) add(fset *token.FileSet, name string, src []byte, f *ast.File) {
	offset := func(p token.Pos) int { return fset.Position(p).Offset }
	put := func(n ast.Node, called string, fn *ast.FuncDecl) {
		d := &declaration{file: name, pkg: f.Name.Name, name: called, src: src, start: offset(n.Pos()), end: offset(n.End()), fn: fn, offset: offset}
		if strings.HasSuffix(name, "_test.go") {
			s.tests[path.Dir(name)+" "+called] = d
			return
		}
		s.code[d.name] = append(s.code[d.name], d)
		s.code[d.pkg+"."+d.name] = append(s.code[d.pkg+"."+d.name], d)
		s.all = append(s.all, d)
	}
	for _, decl := range f.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			// Comments above a function are no part of it.
			put(span{decl.Type.Pos(), decl.End()}, receiver(decl)+decl.Name.Name, decl)
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					for _, n := range spec.Names {
						put(span{spec.Names[0].Pos(), spec.End()}, n.Name, nil)
					}
				case *ast.TypeSpec:
					put(span{spec.Name.Pos(), spec.End()}, spec.Name.Name, nil)
				}
			}
		}
	}
}

type span struct{ from, to token.Pos }

func (s span) Pos() token.Pos { return s.from }
func (s span) End() token.Pos { return s.to }

// receiver is "(*call)." of a method of call[TX], and nothing of a function.
func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil || len(fn.Recv.List) == 0 {
		return ""
	}
	t, star := fn.Recv.List[0].Type, ""
	if p, ok := t.(*ast.StarExpr); ok {
		t, star = p.X, "*"
	}
	switch g := t.(type) {
	case *ast.IndexExpr:
		t = g.X
	case *ast.IndexListExpr:
		t = g.X
	}
	if id, ok := t.(*ast.Ident); ok {
		return "(" + star + id.Name + ")."
	}
	return ""
}

// find returns the declaration of that name, which a package's name may precede.
func (s *source) find(name string) (*declaration, error) {
	switch found := s.code[name]; len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nil, fmt.Errorf("there is no %s. %s", name, s.like(name))
	default:
		return nil, fmt.Errorf("%s is declared more than once: %v. Try: the package's name before it", name, found)
	}
}

// like names what the author of a mutant may have meant by a name that is gone.
func (s *source) like(name string) string {
	best, least := "", len(name)
	for _, d := range s.all {
		for _, candidate := range []string{d.name, d.pkg + "." + d.name} {
			if n := distance(name, candidate); n < least {
				best, least = candidate, n
			}
		}
	}
	if best == "" {
		return "No name is like it"
	}
	return "The nearest name is " + best
}

// distance counts the bytes to insert, delete or replace between a and b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
