package bugbank

import (
	"cmp"
	"encoding/json"
	"fmt"
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// variable names the environment variable that says which mutant of a shared build is at
// work.
const variable = "ONCE_MUTANT"

// overlay is what a build sees in place of files of the tree: their paths and texts.
type overlay map[string]string

// write puts the files into dir and returns the path for "go build -overlay".
func (o overlay) write(root, dir string) (string, error) {
	replace, n := map[string]string{}, 0
	for file, text := range o {
		to := filepath.Join(dir, fmt.Sprintf("%d_%s", n, path.Base(file)))
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(root, filepath.FromSlash(file))] = to
		n++
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "overlay.json")
	return name, os.WriteFile(name, b, 0o600)
}

// places locates the edits of m.
func (s *source) places(m Mutant) (list []place, err error) {
	for _, e := range m.Edits {
		p, err := s.locate(e)
		if err != nil {
			return nil, fmt.Errorf("%q no longer applies: %w", m.Name, err)
		}
		list = append(list, p)
	}
	return list, nil
}

// alone plants one mutant: the declarations that it edits are replaced.
func alone(places []place) overlay {
	files := overlay{}
	for file, list := range byFile(places) {
		files[file] = edited(list[0].decl.src, 0, len(list[0].decl.src), list)
	}
	return files
}

func byFile(places []place) map[string][]place {
	m := map[string][]place{}
	for _, p := range places {
		m[p.decl.file] = append(m[p.decl.file], p)
	}
	return m
}

// edited is src[start:end] with the edits, which do not overlap.
func edited(src []byte, start, end int, edits []place) string {
	slices.SortFunc(edits, func(a, b place) int { return cmp.Compare(a.from, b.from) })
	var b strings.Builder
	for _, e := range edits {
		b.Write(src[start:e.from])
		b.WriteString(e.text)
		start = e.to
	}
	b.Write(src[start:end])
	return b.String()
}

// shareable reports whether a mutant can stand beside others in one build: it changes
// functions only, and those can be called by another one in their place.
func shareable(places []place) bool {
	for _, p := range places {
		d := p.decl
		if d.fn == nil || d.fn.Body == nil || d.name == "init" || d.name == "main" || strings.Contains(string(d.text()), "recover()") ||
			p.from < d.offset(d.fn.Body.Lbrace) {
			return false
		}
	}
	return true
}

// together plants many mutants, of which the environment chooses one when the program runs.
// Each function that they change gets a variant for each, and calls the chosen one.
func together(mutants map[string][]place) overlay {
	type change struct {
		decl     *declaration
		variants map[string][]place // by the mutant's id
	}
	changes := map[*declaration]*change{}
	for id, places := range mutants {
		for _, p := range places {
			c := changes[p.decl]
			if c == nil {
				c = &change{decl: p.decl, variants: map[string][]place{}}
				changes[p.decl] = c
			}
			c.variants[id] = append(c.variants[id], p)
		}
	}
	var edits []place
	added := map[string]string{} // to the end of a file
	files := overlay{}
	for d, c := range changes {
		signature, call := callable(d)
		edits = append(edits, signature...)
		var choose strings.Builder
		choose.WriteString(" switch oncePlanted {")
		for _, id := range sorted(c.variants) {
			fmt.Fprintf(&choose, " case %q: %s;", id, call("_planted"+id))
			name := d.offset(d.fn.Name.End())
			variant := append(slices.Clone(c.variants[id]), place{d, name, name, "_planted" + id})
			added[d.file] += "\n" + edited(d.src, d.start, d.end, append(variant, signature...)) + "\n"
		}
		choose.WriteString(" }; ")
		body := d.offset(d.fn.Body.Lbrace) + 1
		edits = append(edits, place{d, body, body, choose.String()})
		files[path.Join(path.Dir(d.file), "zz_planted.go")] = "package " + d.pkg + "\n\nimport \"os\"\n\nvar oncePlanted = os.Getenv(\"" + variable + "\")\n"
	}
	for file, list := range byFile(edits) {
		files[file] = edited(list[0].decl.src, 0, len(list[0].decl.src), list) + added[file]
	}
	return files
}

func sorted[V any](m map[string]V) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// callable returns the edits that give each parameter of a function a name, and what calls
// another one of its kind whose name ends in suffix.
func callable(d *declaration) (edits []place, call func(suffix string) string) {
	n := 0
	name := func(field *ast.Field) (names []string) {
		fresh := func() string { n++; return "planted" + strconv.Itoa(n) }
		if len(field.Names) == 0 {
			at := d.offset(field.Type.Pos())
			names = append(names, fresh())
			edits = append(edits, place{d, at, at, names[0] + " "})
		}
		for _, id := range field.Names {
			called := id.Name
			if called == "_" {
				called = fresh()
				edits = append(edits, place{d, d.offset(id.Pos()), d.offset(id.End()), called})
			}
			names = append(names, called)
		}
		return names
	}
	var of string
	if d.fn.Recv != nil {
		of = name(d.fn.Recv.List[0])[0] + "."
	}
	var args []string
	for _, field := range d.fn.Type.Params.List {
		for _, arg := range name(field) {
			if _, variadic := field.Type.(*ast.Ellipsis); variadic {
				arg += "..."
			}
			args = append(args, arg)
		}
	}
	var types []string
	if d.fn.Type.TypeParams != nil {
		for _, field := range d.fn.Type.TypeParams.List {
			for _, id := range field.Names {
				types = append(types, id.Name)
			}
		}
	}
	return edits, func(suffix string) string {
		text := of + d.fn.Name.Name + suffix
		if len(types) > 0 {
			text += "[" + strings.Join(types, ", ") + "]"
		}
		text += "(" + strings.Join(args, ", ") + ")"
		if d.fn.Type.Results == nil || len(d.fn.Type.Results.List) == 0 {
			return text + "; return"
		}
		return "return " + text
	}
}
