package testenv

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// tried is a test that has no effect on the one that tries it.
type tried struct {
	testing.TB

	name, ended, text string
	skipped           bool
	cleanup           []func()
}

func (v *tried) Name() string     { return v.name }
func (*tried) Helper()            {}
func (v *tried) Cleanup(f func()) { v.cleanup = append(v.cleanup, f) }
func (v *tried) Failed() bool     { return v.ended == "fail" }
func (v *tried) Skipped() bool    { return v.skipped }
func (v *tried) Errorf(format string, args ...any) {
	v.ended, v.text = "fail", fmt.Sprintf(format, args...)
}
func (v *tried) Fatalf(format string, args ...any) {
	v.Errorf(format, args...)
	runtime.Goexit()
}

func (v *tried) Skip(args ...any) {
	v.ended, v.skipped, v.text = "skip", true, fmt.Sprint(args...)
	runtime.Goexit()
}

// try runs a test of a name, which may have subtests.
func try(name string, test func(*tried)) *tried {
	v := &tried{name: name, ended: "run"}
	done := make(chan struct{})
	go func() {
		defer close(done)
		test(v)
	}()
	<-done
	for _, f := range v.cleanup {
		f()
	}
	return v
}

// TestTiersRunWhatTheyDeclare: what runs in which tier, and what is an error in all of them, so that it does not stay unseen.
func TestTiersRunWhatTheyDeclare(t *testing.T) {
	cellOf := func(declare func(testing.TB), tier Tier) func(*tried) {
		return func(top *tried) {
			declare(top)
			cell := try(top.name+"/cell", func(v *tried) { Cell(v, tier) })
			if top.ended, top.text = cell.ended, cell.text; tier == InTest {
				try(top.name+"/other", func(v *tried) { Cell(v, InProve) })
			}
		}
	}
	for name, c := range map[string]struct {
		test                    func(*tried)
		byHand, inTest, inProve string
	}{
		"prove": {func(v *tried) { prove(v) }, "run", "skip", "run"},
		"subtest": {func(v *tried) {
			try(v.name+"/sub", func(sub *tried) { v.TB = sub; prove(sub) })
			v.ended = v.TB.(*tried).ended
		}, "fail", "fail", "fail"},
		"cell of test":         {cellOf(both, InTest), "run", "run", "skip"},
		"cell of prove":        {cellOf(both, InProve), "run", "skip", "run"},
		"all in prove":         {cellOf(prove, InTest), "run", "skip", "run"},
		"nothing declared":     {cellOf(func(testing.TB) {}, InTest), "fail", "fail", "fail"},
		"no cell":              {func(v *tried) { both(v) }, "run", "fail", "fail"},
		"cell of no subtest":   {func(v *tried) { both(v); Cell(v, InProve) }, "fail", "fail", "fail"},
		"skipped before cells": {func(v *tried) { both(v); v.Skip() }, "skip", "skip", "skip"},
	} {
		for tier, want := range map[Tier]string{"": c.byHand, InTest: c.inTest, InProve: c.inProve} {
			t.Setenv(TierVariable, string(tier))
			top := fmt.Sprintf("TestTried %s %s", name, tier)
			if v := try(top, c.test); v.ended != want || want == "fail" && v.text != "" && !strings.Contains(v.text, "Try: ") {
				t.Errorf("%s in %q: %s, want %s: %s", name, tier, v.ended, want, v.text)
			}
		}
	}
}

// TestProvedIsRecorded: make prove learns which tests of its tier run.
func TestProvedIsRecorded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "proved")
	t.Setenv(TierVariable, string(InProve))
	t.Setenv(ProvedVariable, file)
	try("TestA", func(v *tried) { prove(v) })
	try("TestB", func(v *tried) { both(v) })
	if b, err := os.ReadFile(file); string(b) != "TestA\nTestB\n" {
		t.Errorf("%q, %v", b, err)
	}
}

// TestLotsAreIndependent: neither the sample of a test, nor that of its subtests, nor the begin of its walk follows from
// another one: else some subtests and points would be in no tree.
func TestLotsAreIndependent(t *testing.T) {
	const n = 4
	met := map[[3]int]int{}
	drawn := func(name string) int {
		return map[string]int{"run": 0, "skip": 1}[try(name, func(v *tried) { Sample(v, n) }).ended]
	}
	for tree := range 1000 {
		t.Setenv(SampleVariable, fmt.Sprint(tree))
		first, _ := Stride(&tried{name: "TestX/a"}, n)
		met[[3]int{drawn("TestX"), drawn("TestX/a"), first}]++
	}
	if all := 2 * 2 * n; len(met) != all {
		t.Errorf("%d of %d combinations are met: %v", len(met), all, met)
	}
}
