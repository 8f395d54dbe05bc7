package main

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/cmd/once/internal/migrate"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/operate/doctor"
	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/store/sqlplane"
)

type level = doctor.Verdict

const (
	okay = doctor.VerdictOK
	warn = doctor.VerdictWarn
	fail = doctor.VerdictFail
)

// finding is the answer to one check.
type finding struct{ doctor.Finding }

// examined runs once doctor and returns what it has found, by check.
func examined(t *testing.T, db string, flags ...string) map[string]finding {
	t.Helper()
	o := run(t, slices.Concat([]string{"doctor", "-o", "json", "--db", db}, flags)...)
	var d doctor.Report
	if err := json.Unmarshal([]byte(o.stdout), &d); err != nil {
		t.Fatalf("%v: %s%s", err, o.stdout, o.stderr)
	}
	found := map[string]finding{}
	warnings, failures := 0, 0
	for _, f := range d.Findings {
		if _, twice := found[f.Check]; twice || f.Check == "" || f.Says == "" || (f.Verdict == okay) != (f.Try == "") {
			t.Errorf("%+v", f)
		}
		found[f.Check] = finding{f}
		switch f.Verdict {
		case warn:
			warnings++
		case fail:
			failures++
		case okay:
		}
	}
	want := 0
	if failures > 0 {
		want = 1
	}
	if o.code != want || d.Healthy != (failures == 0) || d.Warnings != warnings || d.Failures != failures || o.stderr != "" {
		t.Errorf("exit code %d with %d warnings and %d failures: %s%s", o.code, warnings, failures, o.stdout, o.stderr)
	}
	return found
}

func (f finding) want(t *testing.T, when string, l level, says string) {
	t.Helper()
	if f.Verdict != l || !strings.Contains(f.Says, says) {
		t.Errorf("%s: %+v, want %s: ...%s...", when, f, l, says)
	}
}

// TestDoctorOperations: what waits for a person is counted, and the oldest is named.
func TestDoctorOperations(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onEach(t, func(t *testing.T, db string) {
		p, err := cli.ParseSource(db)
		if err != nil {
			t.Fatal(err)
		}
		if p.Path != "" {
			d, err := cli.OpenDatabase(t.Context(), db, true)
			if err != nil {
				t.Fatal(err)
			}
			_ = d.Close()
		}
		found := examined(t, db)
		found["migrations"].want(t, "an empty database", fail, "are missing")
		if f, asked := found["unknown"]; asked {
			t.Errorf("without the table: %+v", f)
		}
		run(t, "migrate", "up", "--db", db).want(t, 0)
		for _, check := range []string{"unknown", "lapsed", "waiting", "expired"} {
			examined(t, db)[check].want(t, "an empty table", okay, "")
		}
		rows, err := p.Plain()
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		ago := func(d string) string { return "now() - interval '" + d + "'" }
		if p.Path != "" {
			ago = func(d string) string { return "cast(unixepoch('subsec', '-" + d + "') * 1000 as integer)" }
		}
		if p.Dialect == sqlplane.MySQL {
			ago = func(d string) string { return "unix_timestamp(now(3) - interval " + d + ") * 1000" }
		}
		insert := func(key, state, since, lease, expires string) {
			t.Helper()
			_, err := rows.ExecContext(t.Context(), dialect.Text(p.Dialect, "insert into once_operation (scope, KEY, claim, state, since, lease_until, expires_at) values ('acme', '"+
				key+"', '', "+state+", "+since+", "+lease+", "+expires+")"))
			if err != nil {
				t.Fatal(err)
			}
		}
		insert("alive", "1", ago("1 hour"), ago("-1 hour"), "null") // none of these is trouble
		insert("fresh", "2", ago("1 hour"), "null", ago("-1 hour"))
		insert("gone", "2", ago("3 hour"), "null", ago("2 hour"))
		found = examined(t, db)
		found["lapsed"].want(t, "healthy rows", okay, "")
		found["waiting"].want(t, "healthy rows", okay, "")
		found["unknown"].want(t, "healthy rows", okay, "")
		found["expired"].want(t, "healthy rows", okay, "1 expired row waits")
		insert("lost", "3", ago("5 hour"), "null", "null")
		insert("lost later", "3", ago("4 hour"), "null", "null")
		insert("dead", "1", ago("1 hour"), ago("30 minute"), "null")
		insert("stopped", "4", ago("2 hour"), "null", "null")
		insert("old", "2", ago("100 hour"), "null", ago("50 hour"))
		found = examined(t, db)
		found["unknown"].want(t, "rows", warn, "2 operations have an unknown outcome, the oldest operation for 5 h 0 min")
		found["lapsed"].want(t, "rows", warn, "1 running operation has a lease that has ended")
		found["waiting"].want(t, "rows", warn, "1 operation has stopped before the end, and the oldest operation began 2 h 0 min ago")
		found["expired"].want(t, "rows", warn, "2 expired rows are still in the database, and the oldest row expired 2.1 days ago")
		if try := found["unknown"].Try; !strings.HasPrefix(try, "once keys show lost --scope acme --db ") {
			t.Error(try)
		}
	})
}

// TestDoctorPrints: for people, and for scripts that only look at the exit code.
func TestDoctorPrints(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "app.db")
	run(t, "migrate", "up", "--db", "sqlite:"+file).want(t, 0)
	o := run(t, "doctor", "--db", "file:"+file+"?_pragma=busy_timeout(0)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)").want(t, 1)
	all, err := migration.All(sqlplane.SQLite, migrate.Capabilities...)
	if err != nil {
		t.Fatal(err)
	}
	_, version, _ := strings.Cut(o.stdout, "SQLite ")
	version, _, _ = strings.Cut(version, ",")
	want := `ok    version             SQLite ` + version + `, the version in the command once; the service may contain another version
ok    migrations          all migrations are applied: ` + migration.Newest(all) + `
ok    filesystem          a local one
ok    journal_mode        WAL
warn  synchronous         synchronous is NORMAL: with WAL, a power failure loses the last acknowledged commits, keys and effects together, and a retry executes again; without WAL, a power failure may destroy the file
                          Try: _pragma=synchronous(FULL) in the data source name
fail  busy_timeout        busy_timeout is 0: if two requests write at the same time, one request fails immediately, and sqlstore refuses to start
                          Try: _pragma=busy_timeout(5000) in the data source name
ok    unknown             no operation has an unknown outcome
ok    lapsed              no operation has a lease that has ended
ok    waiting             no operation has stopped before its end
ok    expired             0 expired rows wait until a sweeper deletes them
ok    saga_stuck          no saga is stuck
ok    saga_due            no saga waits for a runner
ok    outbox_backlog      no message waits for delivery
ok    outbox_stopped      no message has failed
ok    outbox_topics       no topic waits too long
ok    outbox_relays       no relay is running, and no message waits for delivery
ok    inbox_gaps          no key waits for a message that was not received
ok    dead_letters        the database has no dead letter

sqlite:` + file + `: 18 checks, 1 warnings, 1 failures.
`
	if o.stdout != want || o.stderr != "" {
		t.Errorf("%s%s\nwant:\n%s", o.stdout, o.stderr, want)
	}
}
