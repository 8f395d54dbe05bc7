package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/cmd/once/internal/command"
	"github.com/oncelib/once/cmd/once/internal/process"
	"github.com/oncelib/once/internal/testenv"
)

// The tests of this package run the command line as a process, on real databases that they share. What needs no process is tested beside its code.

// asMain in the environment makes the test binary the program: what the tests run
// is a real process, and so are the processes that it starts.
const asMain = "ONCE_TEST_AS_MAIN"

func TestMain(m *testing.M) {
	process.Guard()
	if len(os.Args) > 1 && os.Args[1] == asService {
		runService(os.Args[2:])
	}
	if os.Getenv(asMain) != "" {
		mainOnPgx()
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
	cmd.Env = append(slices.DeleteFunc(os.Environ(), isSetting), asMain+"=1", "TMPDIR="+tb.TempDir(), "GORACE=atexit_sleep_ms=0") // else each run waits a second
	return cmd
}

// isSetting reports whether a variable of the environment would be a default of a flag.
func isSetting(variable string) bool {
	return strings.HasPrefix(variable, "ONCE_DB=") || strings.HasPrefix(variable, "ONCE_TO=") || strings.HasPrefix(variable, "ONCE_CONFIG=") || strings.HasPrefix(variable, "DATABASE_URL=")
}

// output is how a run has ended.
type output struct {
	code           int
	stdout, stderr string
}

func run(tb testing.TB, args ...string) output {
	tb.Helper()
	return runIn(tb, "", nil, args...)
}

// runIn runs the program in a folder, with more variables of the environment.
func runIn(tb testing.TB, dir string, env []string, args ...string) output {
	tb.Helper()
	cmd := program(tb, args...)
	cmd.Dir, cmd.Env = dir, append(cmd.Env, env...)
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

// unready is the exit code for a database without tables: a file of SQLite is not there yet and cannot be opened.
func unready(url string) int {
	if strings.HasPrefix(url, "sqlite:") {
		return cli.ExitUnreachable
	}
	return cli.ExitFailed
}

// TestUsageErrorsSayWhatToTry: a command line that is wrong is answered with 2, and with what to try.
func TestUsageErrorsSayWhatToTry(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, says, try string }{
		{"dance", `the command "dance" does not exist`, "once --help"},
		{"migrate", "needs a subcommand", "once migrate up"},
		{"keys", "needs a subcommand", "once keys show"},
		{"demo --opps 3", "-opps", "once demo --help"},
		{"demo --ops many", "many", "once demo --help"},
		{"demo --ops 0", "--ops 0", "--ops 500"},
		{"demo --db oracle://x", "oracle://x", "--db sqlite:PATH"},
		{"demo --metrics --unsafe", "--unsafe runs the service without the library \"once\", so the service has no metrics that --metrics could read", "--metrics without --unsafe"},
		{"demo tomorrow", "tomorrow", "once demo --help"},
		{"demo serve --db sqlite:", "sqlite:", "--db sqlite:PATH"},
		{"demo events", "no NATS server", "go run ./cmd/once/full/once demo events"},
		{"demo serve --otlp http://127.0.0.1:4318", "no OpenTelemetry", "go run ./cmd/once/full/once"},
		{"relay --db sqlite:x --to nats://127.0.0.1:4222", "no NATS", "go run ./cmd/once/full/once"},
		{"relay --db sqlite:x --to kafka://127.0.0.1:9092", "no Kafka", "go run ./cmd/once/full/once"},
		{"help dance", `the command "dance" does not exist`, "once --help"},
		{"demo serve --wait -1s", "--wait -1s", "--wait 2s"},
		{"keys show", "the KEY is missing", "once keys show KEY"},
		{"keys show k", "--db is missing", "--db sqlite:PATH, --db postgres://user@host/name, or --db mysql://user@host/name"},
		{"keys show k --db foo://x", "is not the URL of a supported database", "--db mysql://"},
		{"keys show k --db ada:x@tcp(h:1)/app", "the Go driver for MySQL", "--db mysql://USER:PASSWORD@HOST"},
		{"keys show k -o xml --db sqlite:x", `"xml"`, "-o json"},
		{"keys show k --attempts -1 --db sqlite:x", "--attempts -1", "--attempts 20"},
		{"keys list --state gone --db sqlite:x", `"gone"`, "--state running"},
		{"keys list -o xml --db sqlite:x", `"xml"`, "-o table"},
		{"keys list --limit 0 --db sqlite:x", "--limit 0", "--limit 50"},
		{"keys list extra --db sqlite:x", "extra", "once keys list --help"},
		{"keys forget", "the KEY is missing", "once keys forget KEY"},
		{"keys forget k --reason r --db sqlite:x", "--scope is missing", "once keys forget KEY"},
		{"keys forget k --scope s --db sqlite:x", "--reason is missing", "once keys forget KEY"},
		{"keys resolve k --scope s --reason r --db sqlite:x", "no flag gives the outcome of the call", "--run-again"},
		{"keys resolve k --scope s --reason r --failed x --db sqlite:x", "--call is missing: the ID of the call whose outcome you know", "once keys show KEY"},
		{"keys resolve k --scope s --call c --reason r --call-result x --status 201 --db sqlite:x", "--call-result does not end the operation", "--result with --status"},
		{"keys resolve k --scope s --reason r --failed x --run-again --db sqlite:x", "contradict", "once keys resolve KEY"},
		{"keys resolve k --scope s --call c --reason r --failed x --voided --db sqlite:x", "--voided needs --run-again", "--voided"},
		{"keys resolve k --scope s --call c --failed x --db sqlite:x", "--reason is missing", "once keys resolve KEY"},
		{"keys resolve k --reason r --failed x --db sqlite:x", "--scope is missing", "once keys resolve KEY"},
		{"keys resolve k --scope s --call c --reason r --failed x --status 201 --db sqlite:x", "not the status of a failure", "--status 422"},
		{"audit", "needs a subcommand", "once audit list"},
		{"audit list -o text --db sqlite:x", `"text"`, "-o table"},
		{"keys shwo", `the command "keys shwo"`, "once keys show"},
		{"keys get k1 --db x", `the command "keys get"`, "once keys show"},
		{"keys get k1", `the command "keys get"`, "once keys show"},
		{"keys shwo k1 --db x", `the command "keys shwo"`, "once keys show"},
		{"kyes list --state running", `the command "kyes"`, "once keys"},
		{"gateway chekc --state running", `the command "gateway chekc"`, "once gateway check"},
		{"gateway chekc", `the command "gateway chekc"`, "once gateway check"},
		{"keys --db x", "--db", "once keys --help"},
		{"kyes list", `the command "kyes"`, "once keys"},
		{"migrate up", "--db is missing", "--db sqlite:PATH"},
		{"migrate print", "--dialect is missing", "--dialect postgres"},
		{"migrate print --dialect oracle", "oracle", "--dialect postgres"},
		{"migrate print --dialect sqlite --format x", `"x"`, "--format goose"},
	} {
		o := run(t, strings.Fields(c.args)...).want(t, 2)
		what, try, _ := strings.Cut(o.stderr, "\nTry: ")
		if strings.Contains(what, "?.") || strings.Contains(try, "Try: ") {
			t.Errorf("once %s: %s", c.args, o.stderr)
		}
		if !strings.Contains(what, c.says) || !strings.Contains(try, c.try) || o.stdout != "" {
			t.Errorf("once %s:\n%s%s", c.args, o.stdout, o.stderr)
		}
	}
}

// TestHelpOfEveryCommand: every command tells what it does and what its flags are.
func TestHelpOfEveryCommand(t *testing.T) {
	t.Parallel()
	if o := run(t, "keys", "show", "", "--db", "sqlite:x").want(t, 2); !strings.Contains(o.stderr, "KEY is empty") {
		t.Errorf("%s", o.stderr)
	}
	for _, args := range []string{"", "--help", "help", "help help", "help migrate", "migrate --help", "keys -h", "help keys show"} {
		if o := run(t, strings.Fields(args)...).want(t, 0); !strings.Contains(o.stdout, "Usage:\n  once") || o.stderr != "" {
			t.Errorf("once %s:\n%s%s", args, o.stdout, o.stderr)
		}
	}
	overview := run(t).stdout
	env := command.New()
	for _, n := range env.Nouns {
		if !strings.Contains(overview, "  "+n.Name+" ") || n.Brief == "" {
			t.Errorf("%s is not in the overview:\n%s", n.Name, overview)
		}
		for _, e := range n.Entries {
			var out bytes.Buffer
			env.Stdout = &out
			if code := env.Run(t.Context(), append(strings.Fields(e.Name), "--help")); code != 0 || !strings.Contains(out.String(), "Usage:\n  once "+e.Name) || e.Brief == "" {
				t.Errorf("once %s --help: %d\n%s", e.Name, code, out.String())
			}
			noun, verb, isBelow := strings.Cut(e.Name, " ")
			out.Reset()
			if env.Run(t.Context(), []string{noun, "--help"}); noun != n.Name || isBelow && strings.Contains(out.String(), "\n  "+verb+" ") == e.Hidden {
				t.Errorf("once %s is hidden, %v:\n%s", e.Name, e.Hidden, out.String())
			}
		}
	}
	for _, arg := range []string{"version", "--version"} {
		if o := run(t, arg).want(t, 0); !strings.HasPrefix(o.stdout, "once ") || !strings.Contains(o.stdout, "schema ") {
			t.Errorf("%s: %s", arg, o.stdout)
		}
	}
}
