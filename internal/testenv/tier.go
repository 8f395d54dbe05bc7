package testenv

import (
	"crypto/sha256"
	"encoding/binary"
	"flag"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Tier is a command that runs tests.
type Tier string

// The tiers that judge a change. A test without a declaration belongs to make test.
const (
	InTest  Tier = "test"  // make test
	InProve Tier = "prove" // make prove
)

// TierVariable names the environment variable with the tier that runs. Without it, all tests and cells run.
const TierVariable = "ONCE_TIER"

// ProvedVariable names the environment variable with the file to which a test of make prove appends its name when it
// runs. make prove compares them with those that package tier has listed.
const ProvedVariable = "ONCE_PROVED"

// MutantsVariable names the environment variable that chooses mutants: "changed" for those that a change calls for, or
// else all.
const MutantsVariable = "ONCE_MUTANTS"

// UntilVariable names the environment variable with the time, as RFC 3339, from which on no further mutant is tried.
const UntilVariable = "ONCE_UNTIL"

func running() Tier { return Tier(os.Getenv(TierVariable)) }

// Prove puts a test into the tier of make prove: short kill, cut, fault and storm loops, and
// whatever else takes seconds. A run of make prove draws as many of them as its time allows. In make test it skips. A test
// that is run by hand runs.
//
// It is the first statement of a top-level test, where package tier finds it. Anywhere else it is an
// error: no tier would run the test.
func Prove(tb testing.TB) {
	tb.Helper()
	prove(tb)
}

// Core puts a test into the core of make prove, which always runs whole: one kill loop, one loop of cut connections and one
// stopped process for each capability, on one database. It is short, because the whole core has eight minutes. Like
// [Prove], it is the first statement of a top-level test.
func Core(tb testing.TB) {
	tb.Helper()
	prove(tb)
}

func prove(tb testing.TB) {
	tb.Helper()
	if declare(tb, false); running() == InTest {
		tb.Skip("runs in make prove")
	}
}

// Both puts a test into make test and make prove. Each of its subtests that calls [Cell] runs in one of them, the others
// run in both. It is the first statement of a top-level test.
func Both(tb testing.TB) {
	tb.Helper()
	both(tb)
}

func both(tb testing.TB) {
	tb.Helper()
	d := declare(tb, true)
	tb.Cleanup(func() {
		some := strings.Contains(flag.Lookup("test.run").Value.String(), "/") // of its subtests are asked for
		if d.proves.Load() == 0 && running() != "" && !some && !tb.Skipped() && !tb.Failed() {
			tb.Errorf("testenv: no subtest of %s belongs to make prove.\nTry: remove testenv.Both", tb.Name())
		}
	})
}

// Cell puts a subtest of a test that runs in [Both] tiers into one of them: in the other, it skips. A subtest calls it
// before it starts anything. In a test that begins with [Prove] it changes nothing.
func Cell(tb testing.TB, tier Tier) {
	tb.Helper()
	top, _, sub := strings.Cut(tb.Name(), "/")
	known, declared := declarations.Load(top)
	if !sub || !declared {
		tb.Fatalf("testenv: no tier would run all cells of %s.\nTry: begin it with testenv.Both(t), and call Cell in its subtests", top)
		return
	}
	d := known.(*declaration) //nolint:forcetypeassert // what declare has stored
	if !d.both {
		return
	}
	if tier == InProve {
		d.proves.Add(1)
	}
	if r := running(); r != "" && r != tier {
		tb.Skip("runs in make " + string(tier))
	}
}

// declaration is what a test has declared.
type declaration struct {
	both   bool
	proves atomic.Int64 // its cells of make prove
}

// declarations are by the name of their test.
var declarations sync.Map

// declare records that a test of make prove runs.
func declare(tb testing.TB, both bool) *declaration {
	tb.Helper()
	if top, _, sub := strings.Cut(tb.Name(), "/"); sub {
		tb.Fatalf("testenv: no tier would run this subtest.\nTry: begin %s with testenv.Both(t), and the subtest with testenv.Cell(t, testenv.InProve)", top)
	}
	d := &declaration{both: both}
	declarations.Store(tb.Name(), d)
	if file := os.Getenv(ProvedVariable); file != "" {
		if err := appendLine(file, tb.Name()); err != nil {
			tb.Fatal(err)
		}
	}
	return d
}

// SampleVariable names the environment variable by which make prove says that it runs a sample:
// HEAD's tree, which chooses it.
const SampleVariable = "ONCE_SAMPLE"

// Sample ends a test of which make prove runs one in n: another one for another tree. A test that
// is run by hand, or in the long form, runs. A subtest calls it before it starts anything.
func Sample(tb testing.TB, n uint32) {
	tb.Helper()
	if tree := os.Getenv(SampleVariable); tree != "" && lot(tree, "sample", tb.Name())%n != 0 {
		tb.Skip("not in the sample of this tree; without " + SampleVariable + " it runs")
	}
}

// Stride says which points a walk over N = 1, 2, ... visits: make prove has it begin at one of the first n, which HEAD's
// tree chooses, and visit each n-th one from there. A test that is run by hand, or in the long form, visits all.
func Stride(tb testing.TB, n int) (first, step int) {
	tb.Helper()
	tree := os.Getenv(SampleVariable)
	if tree == "" {
		return 1, 1
	}
	return 1 + int(lot(tree, "stride", tb.Name())%uint32(n)), n
}

// ByHand is the environment for tests that run as by hand, whole, whatever tier has started them.
func ByHand() []string {
	return []string{TierVariable + "=", ProvedVariable + "=", SampleVariable + "=", CountFile + "="}
}

// lot draws a number. What is drawn for one purpose says nothing about another one, or about another test: the sample
// of a test does not choose where its walk begins, nor which of its subtests run.
func lot(of ...string) uint32 {
	sum := sha256.Sum256([]byte(strings.Join(of, "\x00")))
	return binary.BigEndian.Uint32(sum[:])
}
