package tier

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oncelib/once/internal/testenv"
)

const header = "package x\nimport (\n\t\"testing\"\n\t\"github.com/oncelib/once/internal/testenv\"\n)\n"

// TestReadFindsDeclarations: a declaration counts where every run of the test meets it, and is an error anywhere else.
func TestReadFindsDeclarations(t *testing.T) {
	t.Parallel()
	test, prove, both := []testenv.Tier{testenv.InTest}, []testenv.Tier{testenv.InProve}, []testenv.Tier{testenv.InTest, testenv.InProve}
	for name, c := range map[string]struct {
		file, src string
		tiers     []testenv.Tier // of TestX
		wrong     int
	}{
		"none":          {src: header + "func TestX(t *testing.T) { t.Log() }", tiers: test},
		"prove":         {src: header + "func TestX(t *testing.T) {\n\ttestenv.Prove(t)\n}", tiers: prove},
		"core":          {src: header + "func TestX(t *testing.T) {\n\ttestenv.Core(t)\n}", tiers: prove},
		"on one line":   {src: header + "func TestX(tt *testing.T) { testenv.Prove(tt) }", tiers: prove},
		"after comment": {src: header + "func TestX(t *testing.T) {\n\n// why\n\ttestenv.Prove(t) // so\n}", tiers: prove},
		"fuzz":          {src: header + "func FuzzX(f *testing.F) { testenv.Both(f) }\nfunc TestX(t *testing.T) {}", tiers: test},
		"both":          {src: header + "func TestX(t *testing.T) {\n\ttestenv.Both(t)\n}", tiers: both},
		"other name":    {src: strings.Replace(header, "\t\"github", "\te \"github", 1) + "func TestX(t *testing.T) {\n\te.Prove(t)\n}", tiers: prove},
		"dot import":    {src: strings.Replace(header, "\t\"github", "\t. \"github", 1) + "func TestX(t *testing.T) { Prove(t) }", tiers: prove},
		"at home":       {file: home + "/x_test.go", src: "package testenv\nimport \"testing\"\nfunc TestX(t *testing.T) { Prove(t) }", tiers: prove},
		"another Prove": {src: header + "func TestX(t *testing.T) { x.Prove(t); Prove(t) }", tiers: test},

		"second":           {src: header + "func TestX(t *testing.T) {\n\tt.Parallel()\n\ttestenv.Prove(t)\n}", tiers: test, wrong: 1},
		"under if":         {src: header + "func TestX(t *testing.T) { if true { testenv.Prove(t) } }", tiers: test, wrong: 1},
		"subtest":          {src: header + "func TestX(t *testing.T) { t.Run(``, func(t *testing.T) { testenv.Prove(t) }) }", tiers: test, wrong: 1},
		"both, subtest":    {src: header + "func TestX(t *testing.T) { testenv.Both(t); t.Run(``, func(t *testing.T) { testenv.Prove(t) }) }", tiers: both, wrong: 1},
		"helper":           {src: header + "func helper(t *testing.T) { testenv.Prove(t) }\nfunc TestX(t *testing.T) { helper(t) }", tiers: test, wrong: 1},
		"helper elsewhere": {file: "x.go", src: header + "func TestX(t *testing.T) { testenv.Prove(t) }", wrong: 1},
		"as a value":       {src: header + "func TestX(t *testing.T) { f := testenv.Prove; f(t) }", tiers: test, wrong: 1},
		"of another":       {src: header + "var global *testing.T\nfunc TestX(t *testing.T) { testenv.Prove(global) }", tiers: test, wrong: 1},
		"method":           {src: header + "type s struct{}\nfunc (s) TestX(t *testing.T) { testenv.Prove(t) }", wrong: 1},
		"at home, nested":  {file: home + "/x_test.go", src: "package testenv\nimport \"testing\"\nfunc TestX(t *testing.T) { t.Run(``, func(t *testing.T) { Both(t) }) }", tiers: test, wrong: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			if c.file == "" {
				c.file = "a/x_test.go"
			}
			write(t, root, c.file, c.src)
			for _, ignored := range []string{"a/testdata/x_test.go", "_a/x_test.go", ".cache/x_test.go"} {
				write(t, root, ignored, "no Go")
			}
			list, err := Read(root)
			var tiers []testenv.Tier
			for _, x := range list {
				if x.Dir == filepath.ToSlash(filepath.Dir(c.file)) && x.Name == "TestX" {
					tiers = x.Tiers
				}
			}
			if !slices.Equal(tiers, c.tiers) {
				t.Errorf("%q, want %q", tiers, c.tiers)
			}
			if n := count(err); n != c.wrong || n > 0 && (!strings.Contains(err.Error(), c.file+":") || !strings.Contains(err.Error(), "Try: ")) {
				t.Errorf("%d errors, want %d: %v", n, c.wrong, err)
			}
		})
	}
}

// TestWhatGoTestRuns: names that are like those of tests are none.
func TestWhatGoTestRuns(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, root, "x_test.go", header+"func TestMain(m *testing.M) {}\nfunc Testing(t *testing.T) {}\nfunc Test(t *testing.T) {}\n"+
		"func Test1(t *testing.T) {}\nfunc FuzzX(f *testing.F) {}\nfunc BenchmarkX(b *testing.B) {}\nfunc testX(t *testing.T) {}")
	list, err := Read(root)
	var names []string
	for _, x := range list {
		names = append(names, x.Dir+" "+x.Name)
	}
	if want := []string{". FuzzX", ". Test", ". Test1"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("%q, %v; want %q", names, err, want)
	}
	write(t, root, "y_test.go", "no Go")
	if _, err := Read(root); err == nil {
		t.Error("a file that cannot be read is left out")
	}
}

func write(t *testing.T, root, name, text string) {
	t.Helper()
	file := filepath.Join(root, filepath.FromSlash(name))
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func count(err error) int {
	if list, is := err.(interface{ Unwrap() []error }); is {
		return len(list.Unwrap())
	}
	return 0
}
