package bugbank

import (
	"strings"
	"testing"
)

const program = `package p

// settle has a comment.
func (c *call[TX]) settle(ctx context.Context, _ int, rest ...string) error {
	if c.doubt { // a comment in the middle
		return c.ask(ctx,
			"select 1   from operation")
	}
	return nil
}

func settle[T, U any](T) (u U) { return u }

const wait, most = 5, 7

type claim struct{ fence int }
`

func tree(t *testing.T, files map[string]string) *source {
	t.Helper()
	bytes := map[string][]byte{}
	for name, text := range files {
		bytes[name] = []byte(text)
	}
	s, err := parse(bytes)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestEditsAreBlindToForm: neither comments nor white space nor the file count.
func TestEditsAreBlindToForm(t *testing.T) {
	s := tree(t, map[string]string{"a/b.go": program})
	for _, e := range []Edit{
		{In: "(*call).settle", Old: "if c.doubt { return c.ask(ctx,", New: "if false { return c.ask(ctx,"},
		{In: "p.(*call).settle", Old: "if c.doubt {\n\t// another comment\n\treturn c.ask(\n", New: ""},
		{In: "(*call).settle", Old: "1 from", New: "2 from"},
		{In: "p.settle", Old: "return u", New: "return"},
		{In: "most", Old: "7", New: "8"},
		{In: "claim", Old: "fence int", New: "fence int32"},
	} {
		if _, err := s.locate(e); err != nil {
			t.Errorf("%+v: %v", e, err)
		}
	}
	p, err := s.locate(Edit{In: "(*call).settle", Old: "c.doubt", New: "true"})
	if err != nil {
		t.Fatal(err)
	}
	if got := alone([]place{p})["a/b.go"]; got != strings.Replace(program, "if c.doubt", "if true", 1) {
		t.Error(got)
	}
}

// TestWhatNoLongerAppliesSaysWhy names the nearest function and the difference.
func TestWhatNoLongerAppliesSaysWhy(t *testing.T) {
	s := tree(t, map[string]string{"a/b.go": program, "c/d.go": "package q\n\nfunc settle() {}\n"})
	for want, e := range map[string]Edit{
		"The nearest name is (*call).settle":                               {In: "(*call).settled", Old: "x"},
		`after "if c . doubt" the mutant has "&& c", the code "{ return c`: {In: "(*call).settle", Old: "if c.doubt && c"},
		"is declared more than once":                                       {In: "settle", Old: "u"},
		"It is in p.(*call).settle (a/b.go)":                               {In: "claim", Old: "c.ask(ctx"},
		"make Old longer":                                                  {In: "(*call).settle", Old: "return"},
	} {
		if _, err := s.locate(e); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v\nwant %s", e, err, want)
		}
	}
}

// TestVariantsInASharedBuild: every function of a shared build calls the variant that was chosen.
func TestVariantsInASharedBuild(t *testing.T) {
	s := tree(t, map[string]string{"a/b.go": program})
	mutants := map[string][]place{}
	for id, e := range map[string]Edit{"1": {In: "(*call).settle", Old: "c.doubt", New: "true"}, "2": {In: "p.settle", Old: "return u", New: "return"}} {
		p, err := s.locate(e)
		if err != nil {
			t.Fatal(err)
		}
		if !shareable([]place{p}) {
			t.Errorf("%+v is alone", e)
		}
		mutants[id] = []place{p}
	}
	files := together(mutants)
	got := files["a/b.go"]
	for _, want := range []string{
		`settle(ctx context.Context, planted1 int, rest ...string) error { switch oncePlanted { case "1": return c.settle_planted1(ctx, planted1, rest...); }; `,
		`func (c *call[TX]) settle_planted1(ctx context.Context, planted1 int, rest ...string) error {`,
		"if true {",
		`func settle[T, U any](planted1 T) (u U) { switch oncePlanted { case "2": return settle_planted2[T, U](planted1); };  return u }`,
		`func settle_planted2[T, U any](planted1 T) (u U) { return }`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	if !strings.Contains(files["a/zz_planted.go"], "package p\n") {
		t.Error(files)
	}
	if p, err := s.locate(Edit{In: "most", Old: "7", New: "8"}); err != nil || shareable([]place{p}) {
		t.Errorf("a constant shares a build: %v", err)
	}
}
