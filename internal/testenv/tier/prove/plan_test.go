package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/internal/testenv/tier"
)

// TestDrawsAreTheTreesLot: each test of the tier stands in the plan once, and the tree alone chooses the order.
func TestDrawsAreTheTreesLot(t *testing.T) {
	t.Parallel()
	prove := []testenv.Tier{testenv.InProve}
	tests := []tier.Test{{Dir: "a", Name: "TestNotHere", Tiers: []testenv.Tier{testenv.InTest}}, {Dir: "a", Name: "TestCore", Tiers: prove, Core: true}, {Dir: "a", Name: bank, Tiers: prove}}
	for name := range strings.SplitSeq("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "") {
		tests = append(tests, tier.Test{Dir: "b", Name: "Test" + name, Tiers: prove})
	}
	p := newPlan(tests)
	first, again, other := p.draws("tree"), p.draws("tree"), p.draws("other tree")
	if !slices.EqualFunc(first, again, func(a, b draw) bool { return a.String() == b.String() }) {
		t.Errorf("one tree has two lots:\n%v\n%v", first, again)
	}
	if slices.EqualFunc(first, other, func(a, b draw) bool { return a.String() == b.String() }) {
		t.Errorf("two trees have one lot: %v", first)
	}
	seen := map[string]int{}
	for _, d := range slices.Concat(first, p.core, draws{p.mutants}) {
		for _, name := range d.names {
			seen[name]++
		}
	}
	for _, x := range tests {
		if want := len(x.Tiers); (x.Tiers[0] == testenv.InProve) != (seen[x.Name] == want) {
			t.Errorf("%s of %v stands in the plan %d times", x.Name, x.Tiers, seen[x.Name])
		}
	}
	if p.core.tests() != 1 || len(p.mutants.names) != 1 {
		t.Errorf("core %v, mutants %v", p.core, p.mutants)
	}
}

// TestRunnerFails: a draw that fails, one that does not run its test and one that does not compile fail the run, and a
// run whose time is over says what it has not begun.
func TestRunnerFails(t *testing.T) {
	t.Parallel()
	const header = "package x\nimport (\"os\"; \"testing\")\n"
	told := "func told(t *testing.T) { f, _ := os.OpenFile(os.Getenv(\"" + testenv.ProvedVariable + "\"), os.O_APPEND|os.O_WRONLY, 0); f.WriteString(t.Name()+\"\\n\"); f.Close() }\n"
	for name, c := range map[string]struct{ src, want string }{
		"passes":          {header + told + "func TestX(t *testing.T) { told(t) }", ""},
		"fails":           {header + told + "func TestX(t *testing.T) { told(t); t.Fail() }", "TestX"},
		"does not run":    {header + "func TestX(t *testing.T) {}\nvar _ = os.Args", "TestX"},
		"does not build":  {header, "TestX"},
		"another of them": {header + told + "func TestX(t *testing.T) { told(t) }\nfunc TestXY(t *testing.T) { t.Fail() }", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for file, text := range map[string]string{"go.mod": "module x\n\ngo 1.25\n", "x_test.go": c.src} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			r, err := newRunner("tree")
			if err != nil {
				t.Fatal(err)
			}
			defer r.close()
			d := draw{dir: dir, names: []string{"TestX"}}
			if idle := r.runAll(t.Context(), draws{d}, time.Time{}); len(idle) > 0 {
				t.Errorf("not begun: %v", idle)
			}
			if idle := r.runAll(t.Context(), draws{d}, time.Now().Add(-time.Second)); idle.tests() != 1 {
				t.Errorf("after the time, %v was not begun", idle)
			}
			if err := r.verdict(t.Context()); c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("verdict %v, want one that names %q", err, c.want)
			}
		})
	}
}
