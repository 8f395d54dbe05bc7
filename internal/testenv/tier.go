package testenv

import (
	"hash/fnv"
	"os"
	"testing"
)

// TierVariable names the environment variable with the tier that runs: "test" is make test.
const TierVariable = "ONCE_TIER"

// Prove puts a test into the tier of make prove: short kill, cut, fault and storm loops, and
// whatever else takes seconds. In make test it skips. A test that is run by hand runs.
//
// It is the first statement of the test, so that internal/torture/tier can list the tests
// of the tier, and GUARANTEES.md can be checked against it.
func Prove(tb testing.TB) {
	tb.Helper()
	if os.Getenv(TierVariable) == "test" {
		tb.Skip("runs in make prove")
	}
}

// SampleVariable names the environment variable by which make prove says that it runs a sample:
// HEAD's tree, which chooses it.
const SampleVariable = "ONCE_SAMPLE"

// Sample ends a test of which make prove runs one in n: another one for another tree. A test that
// is run by hand, or in the long form, runs. A subtest calls it before it starts anything.
func Sample(tb testing.TB, n uint32) {
	tb.Helper()
	if tree := os.Getenv(SampleVariable); tree != "" && (lot(tb.Name())+lot(tree))%n != 0 {
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
	return 1 + int(lot(tb.Name())+lot(tree))%n, n
}

func lot(name string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(name))
	return h.Sum32() >> 10 // the lower bits of names that end alike are no lot
}
