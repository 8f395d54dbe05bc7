package testenv

import (
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
