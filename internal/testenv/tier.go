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

// ProvedVariable names the environment variable with a file. A test of make prove appends its name to this file when it runs. make
// prove compares the names with the list of package tier.
const ProvedVariable = "ONCE_PROVED"

// MutantsVariable names the environment variable that chooses mutants. "changed" means the mutants that a change calls for. Any other
// value means all mutants.
const MutantsVariable = "ONCE_MUTANTS"

// UntilVariable names the environment variable with a time, as RFC 3339. After this time no further mutant is tried.
const UntilVariable = "ONCE_UNTIL"

func running() Tier { return Tier(os.Getenv(TierVariable)) }

// Prove puts a test into the tier of make prove. Short kill, cut, fault and storm loops belong there, and other tests that take
// seconds. A run of make prove draws as many of these tests as its time allows. In make test, such a test skips. A test that is
// run by hand runs.
//
// Prove must be the first statement of a top-level test, where package tier finds it. Anywhere else it is an error, because no
// tier would run the test.
func Prove(tb testing.TB) {
	tb.Helper()
	prove(tb)
}

// Core puts a test into the core of make prove, which is always run completely. The core has one kill loop, one loop of cut
// connections and one stopped process for each capability, on one database. Its tests must be short, because the whole core has
// eight minutes. Like [Prove], Core must be the first statement of a top-level test.
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

// Both puts a test into make test and make prove. Each subtest that calls [Cell] runs in one of the two, and all other subtests run
// in both. Both must be the first statement of a top-level test.
func Both(tb testing.TB) {
	tb.Helper()
	both(tb)
}

func both(tb testing.TB) {
	tb.Helper()
	d := declare(tb, true)
	tb.Cleanup(func() {
		some := strings.Contains(flag.Lookup("test.run").Value.String(), "/") // only some subtests are asked for
		if d.proves.Load() == 0 && running() != "" && !some && !tb.Skipped() && !tb.Failed() {
			tb.Errorf("testenv: no subtest of %s belongs to make prove.\nTry: remove testenv.Both", tb.Name())
		}
	})
}

// Cell puts a subtest of a test that begins with [Both] into one tier. In the other tier, the subtest skips. A subtest calls Cell
// before it starts anything. In a test that begins with [Prove], Cell changes nothing.
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
	proves atomic.Int64 // how many of its cells belong to make prove
}

// declarations maps the names of tests to their declarations.
var declarations sync.Map

// declare records what a test has declared, and that it runs.
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

// SampleVariable names the environment variable by which make prove says that it runs a sample. Its value is HEAD's tree, which
// chooses the sample.
const SampleVariable = "ONCE_SAMPLE"

// Sample ends a test of which make prove runs only one in n. The tree decides which one. A test that is run by hand, or in the long
// form, runs. A subtest calls Sample before it starts anything.
func Sample(tb testing.TB, n uint32) {
	tb.Helper()
	if tree := os.Getenv(SampleVariable); tree != "" && lot(tree, "sample", tb.Name())%n != 0 {
		tb.Skip("not in the sample of this tree; without " + SampleVariable + " it runs")
	}
}

// Stride says which points a walk over N = 1, 2, ... visits. In make prove, the walk begins at one of the first n points, which HEAD's
// tree chooses, and visits each n-th point from there. A test that is run by hand, or in the long form, visits all points.
func Stride(tb testing.TB, n int) (first, step int) {
	tb.Helper()
	tree := os.Getenv(SampleVariable)
	if tree == "" {
		return 1, 1
	}
	return 1 + int(lot(tree, "stride", tb.Name())%uint32(n)), n
}

// ByHand returns the environment for tests that run completely, as if run by hand, whatever tier has started them.
func ByHand() []string {
	return []string{TierVariable + "=", ProvedVariable + "=", SampleVariable + "=", CountFile + "="}
}

// lot draws a number. The numbers for different purposes and different tests are independent: the sample of a test does not decide
// where its walk begins, or which of its subtests run.
func lot(of ...string) uint32 {
	sum := sha256.Sum256([]byte(strings.Join(of, "\x00")))
	return binary.BigEndian.Uint32(sum[:])
}
