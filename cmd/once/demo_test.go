package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/oncelib/once/cmd/once/internal/killstorm"
	"github.com/oncelib/once/internal/testenv"
)

// fields of the JSON result; all but ok are numbers.
var fields = []string{
	"attempts", "client_kills", "duplicates", "effects", "in_flight_refused", "kills", "lost",
	"mismatches_refused", "ok", "operations", "replay_differences", "replayed", "resumed",
}

func result(tb testing.TB, o output) (n map[string]int, ok bool) {
	tb.Helper()
	var members map[string]any
	d := json.NewDecoder(strings.NewReader(o.stdout))
	if err := d.Decode(&members); err != nil || d.More() {
		tb.Fatalf("not one JSON object: %v\n%s", err, o.stdout)
	}
	if got := slices.Sorted(maps.Keys(members)); !slices.Equal(got, fields) {
		tb.Fatalf("fields %v, want %v", got, fields)
	}
	n = map[string]int{}
	for name, v := range members {
		if f, isNumber := v.(float64); isNumber {
			n[name] = int(f)
		}
	}
	return n, members["ok"] == true
}

// TestDemoRefundsEachOrderOnce: with once, the storm leaves every refund once.
func TestDemoRefundsEachOrderOnce(t *testing.T) {
	testenv.Core(t)
	t.Parallel()
	onEach(t, func(t *testing.T, db string) {
		dir := t.TempDir()
		o := run(t, "demo", "--ops", "60", "--seed", "7", "--json", "--db", db, "--log", dir).want(t, 0)
		n, ok := result(t, o)
		if !ok || n["operations"] != 60 || n["effects"] != 60 || n["duplicates"]+n["lost"]+n["replay_differences"] != 0 {
			t.Errorf("%s", o.stdout)
		}
		if n["kills"] < 5 || n["client_kills"] < 5 || n["resumed"] < 1 || n["replayed"] < 60 || n["mismatches_refused"] < 6 {
			t.Errorf("a calm storm: %s", o.stdout)
		}
		checkLogs(t, dir, n)
		// A second storm on the same database is not confused by the first.
		run(t, "demo", "--ops", "20", "--json", "--db", db).want(t, 0)
	})
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

func checkMode(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("%s: %v, %v", path, info, err)
	}
}

func memberNames(t *testing.T, object string) []string {
	t.Helper()
	var members map[string]any
	if err := json.Unmarshal([]byte(object), &members); err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(maps.Keys(members))
}

// checkLogs holds the logs against the result: each attempt has a line, and each
// key one result.
func checkLogs(t *testing.T, dir string, n map[string]int) {
	t.Helper()
	attempts := readCSV(t, filepath.Join(dir, "client_retries.csv"), "attempt,delay_ms,status,code,notes")
	if len(attempts) != n["attempts"] {
		t.Errorf("%d lines of attempts, %d attempts", len(attempts), n["attempts"])
	}
	mismatches := 0
	for _, a := range attempts {
		if a[3] == "CONFLICT.idempotency.mismatch" && a[2] == "422" {
			mismatches++
		}
		if number, err := strconv.Atoi(a[0]); err != nil || number < 1 {
			t.Errorf("attempt %v", a)
		}
	}
	if mismatches != n["mismatches_refused"] {
		t.Errorf("%d mismatches logged, %d counted", mismatches, n["mismatches_refused"])
	}
	ids := map[string]string{}
	for _, o := range readCSV(t, filepath.Join(dir, "outcomes.csv"), "key,payload_hash,status,http_code,result_id,notes") {
		switch key, word, code, id := o[0], o[2], o[3], o[4]; {
		case word == "mismatch" && code == "422" && id == "":
		case word != "executed" && word != "replayed", code != "201", ids[key] != "" && ids[key] != id:
			t.Errorf("outcome %v, an earlier one has %s", o, ids[key])
		default:
			ids[key] = id
		}
	}
	if len(ids) != n["operations"] {
		t.Errorf("%d keys in outcomes.csv, %d operations", len(ids), n["operations"])
	}
}

// TestDemoUnsafe: without once, the same storm refunds twice, and the demo says so.
func TestDemoUnsafe(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	onEach(t, func(t *testing.T, db string) {
		o := run(t, "demo", "--ops", "40", "--seed", "7", "--json", "--unsafe", "--db", db).want(t, 1)
		if n, ok := result(t, o); ok || n["duplicates"] == 0 || n["effects"] != 40+n["duplicates"]-n["lost"] || n["replayed"] != 0 {
			t.Errorf("%s", o.stdout)
		}
	})
}

// TestDemoSummary: a stranger is told what happened and what to run next, and that
// works. The smallest storm has every kind of trouble.
func TestDemoSummary(t *testing.T) {
	t.Parallel()
	o := run(t, "demo", "--ops", "1").want(t, 0)
	if !strings.Contains(o.stdout, "OK: every refund took effect exactly once") || !strings.Contains(o.stderr, "1/1 refunds") {
		t.Errorf("%s\n%s", o.stdout, o.stderr)
	}
	next := regexp.MustCompile(`once (keys show) (\S+) (--scope) '([^']+)' (--db) (\S+)`).FindStringSubmatch(o.stdout)
	if next == nil {
		t.Fatalf("no line to run next:\n%s", o.stdout)
	}
	if o := run(t, append(strings.Fields(next[1]), next[2:]...)...).want(t, 0); !strings.Contains(o.stdout, "done: the operation took effect one time") {
		t.Errorf("%s", o.stdout)
	}
	if o := run(t, "demo", "--ops", "5", "--unsafe").want(t, 1); !strings.Contains(o.stdout, "NOT OK") || !strings.Contains(o.stdout, "too many") {
		t.Errorf("%s", o.stdout)
	}
}

// TestDemoFails: a demo that cannot start says why.
func TestDemoFails(t *testing.T) {
	t.Parallel()
	o := run(t, "demo", "--db", "sqlite:"+filepath.Join(t.TempDir(), "no", "such", "folder.db")).want(t, 1)
	if !strings.Contains(o.stderr, "ended by itself; the demo did not kill it") || !strings.Contains(o.stderr, "\nTry: ") {
		t.Errorf("%s", o.stderr)
	}
	o = run(t, "demo", "--db", "postgres://127.0.0.1:1/none").want(t, 4)
	if !strings.Contains(o.stderr, "127.0.0.1:1") || !strings.Contains(o.stderr, "\nTry: ") {
		t.Errorf("%s", o.stderr)
	}
}

// TestDemoMetrics: what the instruments of the service have counted agrees with the database, and the demo
// shows both.
func TestDemoMetrics(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	for _, db := range []string{sqliteURL(t), testenv.NewDatabase(t)} {
		o := run(t, "demo", "--ops", "60", "--seed", "7", "--metrics", "--json", "--db", db).want(t, 0)
		var r killstorm.Report
		if err := json.Unmarshal([]byte(o.stdout), &r); err != nil || r.Instruments == nil {
			t.Fatalf("%v: %s", err, o.stdout)
		}
		i := *r.Instruments
		if !r.OK || i.Executed+i.Unread != 60 || i.Executed == 0 || i.Last != i.LastEffects || i.Replayed < 60 || i.Again != 0 {
			t.Errorf("%s", o.stdout)
		}
	}
	o := run(t, "demo", "--ops", "5", "--metrics").want(t, 0)
	if !strings.Contains(o.stdout, "in the metrics of the service") || !strings.Contains(o.stdout, "replays at the end, when the 5 refunds were requested again") {
		t.Errorf("%s", o.stdout)
	}
}
