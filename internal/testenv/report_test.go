package testenv_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/oncelib/once/internal/testenv"
)

func TestReportAppendsLines(t *testing.T) {
	name := filepath.Join(t.TempDir(), "report")
	t.Setenv(testenv.ReportFile, name)
	testenv.Reportf(t, "%d points", 7)
	testenv.Reportf(t, "%d kills", 8)
	got, err := os.ReadFile(name)
	if want := "TestReportAppendsLines: 7 points\nTestReportAppendsLines: 8 kills\n"; err != nil || string(got) != want {
		t.Errorf("%q, %v", got, err)
	}
}
