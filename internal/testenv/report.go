package testenv

import (
	"fmt"
	"os"
	"testing"
)

// ReportFile names the environment variable with the file that [Reportf] appends to.
const ReportFile = "ONCE_REPORT"

// Reportf logs what a test has met, which is a part of its result: how many points a kill
// loop had, how long a mutant lived. Go prints no logs of tests that pass; "make test" prints
// the file at its end.
func Reportf(t testing.TB, format string, args ...any) {
	t.Helper()
	t.Logf(format, args...)
	name := os.Getenv(ReportFile)
	if name == "" {
		return
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600) //nolint:gosec // the file that the caller of the tests has named
	if err != nil {
		t.Error(err)
		return
	}
	if _, err := fmt.Fprintf(f, "%s: "+format+"\n", append([]any{t.Name()}, args...)...); err != nil { // at once: others append, too
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}
