//go:build linux

package testenv

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// verdict is a testing.TB that records how Need ended the test.
type verdict struct {
	testing.TB

	ended, text string
}

func (*verdict) Helper()             {}
func (v *verdict) Skip(args ...any)  { v.ended, v.text = "skip", fmt.Sprint(args...) }
func (v *verdict) Fatal(args ...any) { v.ended, v.text = "fatal", fmt.Sprint(args...) }

func TestNeed(t *testing.T) {
	for _, c := range []struct {
		ci       string
		software []string
		ended    string
	}{
		{"", []string{"sh"}, ""},
		{"true", []string{"sh"}, ""},
		{"", []string{"sh", "no-such-program"}, "skip"},
		{"false", []string{"no-such-program"}, "skip"},
		{"true", []string{"no-such-program", "sh"}, "fatal"},
	} {
		t.Setenv("CI", c.ci)
		v := &verdict{TB: t}
		Need(v, c.software...)
		if v.ended != c.ended {
			t.Errorf("CI=%q, need %v: ended by %q, want %q", c.ci, c.software, v.ended, c.ended)
		}
		if c.ended != "" && (!strings.Contains(v.text, "no-such-program") || !strings.Contains(v.text, "Try: ")) {
			t.Errorf("the text does not help: %s", v.text)
		}
	}
}

func TestNeedNamesAnIncompletePostgreSQL(t *testing.T) {
	t.Setenv(binaryDirEnv, t.TempDir())
	t.Setenv("CI", "")
	v := &verdict{TB: t}
	Need(v, "postgresql")
	if v.ended != "skip" || !strings.Contains(v.text, "initdb") || !strings.Contains(v.text, "apt-get install postgresql") {
		t.Errorf("ended by %q: %s", v.ended, v.text)
	}
}

func TestBinaryDirOverride(t *testing.T) {
	dir := t.TempDir()
	for _, tool := range postgresTools {
		if err := os.WriteFile(filepath.Join(dir, tool), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv(binaryDirEnv, dir)
	if got, err := Binary("psql"); got != filepath.Join(dir, "psql") || err != nil {
		t.Errorf("Binary(psql) = %q, %v", got, err)
	}
}

func TestNewestVersionFirst(t *testing.T) {
	t.Parallel()
	dirs := []string{"/usr/lib/postgresql/9.6/bin", "/usr/lib/postgresql/18/bin", "/usr/lib/postgresql/15/bin"}
	slices.SortFunc(dirs, func(a, b string) int { return slices.Compare(versionOf(b), versionOf(a)) })
	if want := "/usr/lib/postgresql/18/bin"; dirs[0] != want || !strings.Contains(dirs[2], "9.6") {
		t.Errorf("order = %v", dirs)
	}
}

func TestFreePortIsNotEphemeral(t *testing.T) {
	t.Parallel()
	for range 50 {
		port, err := freePort()
		if err != nil {
			t.Fatal(err)
		}
		if port < 1024 || port >= firstEphemeralPort() {
			t.Fatalf("port %d", port)
		}
	}
}
