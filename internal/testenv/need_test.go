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

	name, ended, text string
}

func (v *verdict) Name() string      { return v.name }
func (*verdict) Helper()             {}
func (v *verdict) Skip(args ...any)  { v.ended, v.text = "skip", fmt.Sprint(args...) }
func (v *verdict) Fatal(args ...any) { v.ended, v.text = "fatal", fmt.Sprint(args...) }

func TestNeedSkipsOrFails(t *testing.T) {
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

func TestNeedNamesAMissingMySQL(t *testing.T) {
	t.Setenv(mysqlDirEnv, t.TempDir())
	for ci, ended := range map[string]string{"": "skip", "true": "fatal"} {
		t.Setenv("CI", ci)
		v := &verdict{TB: t}
		Need(v, "mysql")
		if v.ended != ended || !strings.Contains(v.text, os.Getenv(mysqlDirEnv)) || !strings.HasSuffix(v.text, "Try: make setup") {
			t.Errorf("CI=%q: ended by %q: %s", ci, v.ended, v.text)
		}
	}
}

// TestMySQLIsNotMariaDB: Debian's mysqld in an sbin directory is MariaDB's.
func TestMySQLIsNotMariaDB(t *testing.T) {
	t.Setenv(mysqlDirEnv, "")
	Need(t, "mysql")
	if got, err := Binary("mysqld"); err != nil || got != filepath.Join(mysqlDir, "mysqld") {
		t.Errorf("Binary(mysqld) = %q, %v", got, err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mysqld"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv(mysqlDirEnv, dir)
	if got, err := Binary("mysqld"); got != filepath.Join(dir, "mysqld") || err != nil {
		t.Errorf("Binary(mysqld) = %q, %v", got, err)
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

// TestSampleDiffersByTree: each of n trees in a row has its own part of the tests, and each test its trees.
func TestSampleDiffersByTree(t *testing.T) {
	const n, tests = 3, 60
	chosen := map[int]int{} // trees by test
	for tree := range 30 {
		t.Setenv(SampleVariable, fmt.Sprint(tree))
		ran := 0
		for test := range tests {
			v := &verdict{TB: t, name: fmt.Sprint("TestX/", test)}
			if Sample(v, n); v.ended == "" {
				ran++
				chosen[test]++
			}
		}
		if ran == 0 || ran == tests {
			t.Errorf("tree %d: %d of %d", tree, ran, tests)
		}
	}
	if len(chosen) != tests {
		t.Errorf("only %d of %d tests are ever run", len(chosen), tests)
	}
	t.Setenv(SampleVariable, "")
	v := &verdict{TB: t, name: "TestX"}
	if Sample(v, n); v.ended != "" {
		t.Error("a test that is run by hand was left out")
	}
}

// TestStrideVisitsEveryPoint: the trees together visit every point, and a test that is run by hand visits all.
func TestStrideVisitsEveryPoint(t *testing.T) {
	const n = 5
	begins := map[int]bool{}
	for tree := range 100 {
		t.Setenv(SampleVariable, fmt.Sprint(tree))
		first, step := Stride(t, n)
		if first < 1 || first > n || step != n {
			t.Errorf("tree %d: %d, %d", tree, first, step)
		}
		begins[first] = true
	}
	if len(begins) != n {
		t.Errorf("walks begin at %v", begins)
	}
	t.Setenv(SampleVariable, "")
	if first, step := Stride(t, n); first != 1 || step != 1 {
		t.Errorf("by hand: %d, %d", first, step)
	}
}
