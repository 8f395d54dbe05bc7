package main

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oncelib/once/cmd/once/internal/command"
	"github.com/oncelib/once/cmd/once/internal/process"
	"github.com/oncelib/once/internal/testenv"
)

// The tests of this package run what the small build does not have. What both have is tested in cmd/once.

// asMain in the environment makes the test binary the program.
const asMain = "ONCE_TEST_AS_MAIN"

func TestMain(m *testing.M) {
	process.Guard()
	if os.Getenv(asMain) != "" {
		main()
		return
	}
	testenv.Main(m)
}

func program(tb testing.TB, args ...string) *exec.Cmd {
	tb.Helper()
	self, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	cmd := exec.CommandContext(tb.Context(), self, args...)
	cmd.Env = append(os.Environ(), asMain+"=1", "TMPDIR="+tb.TempDir())
	return cmd
}

// output is how a run has ended.
type output struct {
	code           int
	stdout, stderr string
}

func run(tb testing.TB, args ...string) output {
	tb.Helper()
	cmd := program(tb, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		tb.Fatal(err)
	}
	return output{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

func (o output) want(tb testing.TB, code int) output {
	tb.Helper()
	if o.code != code {
		tb.Fatalf("exit code %d, want %d\nstdout: %s\nstderr: %s", o.code, code, o.stdout, o.stderr)
	}
	return o
}

func sqliteURL(tb testing.TB) string {
	tb.Helper()
	return "sqlite:" + filepath.Join(tb.TempDir(), "once.db")
}

// onEach runs test on every database: SQLite and PostgreSQL in make test, and the others by lot in make prove.
func onEach(t *testing.T, test func(t *testing.T, db string)) {
	t.Helper()
	t.Run("SQLite", func(t *testing.T) {
		testenv.Cell(t, testenv.InTest)
		test(t, sqliteURL(t))
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		testenv.Cell(t, testenv.InTest)
		test(t, testenv.NewDatabase(t))
	})
	t.Run("MariaDB", func(t *testing.T) {
		byLot(t)
		_, name, _ := strings.Cut(testenv.NewMariaDB(t), "/")
		test(t, testenv.SharedMariaDB(t).URL(name))
	})
	t.Run("MySQL", func(t *testing.T) {
		byLot(t)
		_, name, _ := strings.Cut(testenv.NewMySQL(t), "/")
		test(t, testenv.SharedMySQL(t).URL(name))
	})
}

// byLot puts a subtest into make prove, which runs one in four of them.
func byLot(t *testing.T) {
	t.Helper()
	testenv.Cell(t, testenv.InProve)
	testenv.Sample(t, 4)
}

// serving starts the service of the demo, which logs to a file if there is one. said is what it prints first.
func serving(t *testing.T, log *os.File, args ...string) (cmd *exec.Cmd, said map[string]string) {
	t.Helper()
	cmd = program(t, append([]string{"demo", "serve", "--listen", "127.0.0.1:0"}, args...)...)
	if log != nil {
		cmd.Stderr = log
	}
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	said = map[string]string{}
	lines := bufio.NewScanner(stdout)
	for said["serving"] == "" && lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		said[name] = strings.TrimSpace(value)
	}
	return cmd, said
}

// charge sends one charge.
func charge(t *testing.T, url, key string, header ...string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/charges", strings.NewReader(`{"amount":5000,"currency":"EUR","customer":"ada"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer acme")
	req.Header.Set("Idempotency-Key", key)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		t.Errorf("a charge is answered with %d", resp.StatusCode)
	}
}

func readCSV(tb testing.TB, path, header string) [][]string {
	tb.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	rows, err := csv.NewReader(bytes.NewReader(b)).ReadAll()
	if err != nil || strings.Join(rows[0], ",") != header {
		tb.Fatalf("%s: %v, header %v", path, err, rows[0])
	}
	return rows[1:]
}

// TestFullBuildHasAll: it has each command of the small build, and its own.
func TestFullBuildHasAll(t *testing.T) {
	t.Parallel()
	full, small := command.New(own...), command.New()
	for _, n := range small.Nouns {
		for _, e := range n.Entries {
			if !full.Has(e.Name) {
				t.Errorf("once %s is missing", e.Name)
			}
		}
	}
	for _, e := range own {
		if !full.Has(e.Name) || small.Has(e.Name) {
			t.Errorf("%s must be in the full build alone", e.Name)
		}
	}
	o := run(t, "relay", "--to", "kafka://", "--db", "sqlite:x").want(t, 2)
	if !strings.Contains(o.stderr, "--to kafka://") || strings.Contains(o.stderr, "this build") {
		t.Errorf("%s", o.stderr)
	}
}
