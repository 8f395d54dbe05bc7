package testenv

import (
	"errors"
	"fmt"
	"os"
	"testing"
)

// ReportFile names the environment variable with the file that [Reportf] appends to.
const ReportFile = "ONCE_REPORT"

// Reportf logs something that a test has found and that is a part of its result, such as how many points a kill loop had. Go does not print
// the logs of tests that pass, so "make test" prints the file at its end.
func Reportf(t testing.TB, format string, args ...any) {
	t.Helper()
	t.Logf(format, args...)
	name := os.Getenv(ReportFile)
	if name == "" {
		return
	}
	if err := appendLine(name, fmt.Sprintf("%s: "+format, append([]any{t.Name()}, args...)...)); err != nil {
		t.Error(err)
	}
}

// appendLine appends a line to a file with one write, because other processes append, too.
func appendLine(name, line string) error {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600) //nolint:gosec // the file that the caller of the tests has named
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	return errors.Join(err, f.Close())
}
