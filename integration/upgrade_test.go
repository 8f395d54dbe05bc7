package integration

import (
	"os"
	"strings"
	"testing"

	"modernc.org/sqlite"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/migration"
)

const (
	appliedBefore = "operation 1, operation 2, attemptlog 1, operate 1, journal 1"
	appliedAfter  = "operation 1, operation 2, operation 3, operation 4, operation 5, attemptlog 1, operate 1, operate 2, journal 1"
)

// TestUpgradeKeepsAllRows: a database of before once_schema keeps all that is in it.
func TestUpgradeKeepsAllRows(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onOldDatabases(t, func(t *testing.T, g *testDB) {
		if got := g.applied(t, capabilities...); got != appliedBefore {
			t.Errorf("before: %s", got)
		}
		for range 2 { // the second one finds nothing to do
			if err := g.upgrade(t.Context(), setup{dsn: g.DSN}, newest...); err != nil {
				t.Fatal(err)
			}
			g.wholeAfterUpgrade(t)
		}
		g.worksAfterUpgrade(t)
	})
}

// TestUpgradeKilled: the upgrade loses its connection at each of its statements, before the
// statement or after it, and the next upgrade completes it.
func TestUpgradeKilled(t *testing.T) {
	testenv.Core(t)
	t.Parallel()
	onOldDatabases(t, func(t *testing.T, g *testDB) {
		for _, f := range killsOf[g.Kind] {
			harness.Loop(t, 10, func(at int) bool {
				line, su := g.obstructed(t)
				line.arm(at, f)
				err := g.upgrade(t.Context(), su, newest...)
				if !line.struck() {
					if err != nil {
						t.Errorf("not killed: %v", err)
					}
					return false
				}
				if err := g.upgrade(t.Context(), setup{dsn: g.DSN}, newest...); err != nil {
					t.Errorf("%s statement %d: %v", f.name, at, err)
				}
				g.wholeAfterUpgrade(t)
				g = g.renewed(t)
				return true
			})
			g.worksAfterUpgrade(t)
			g = g.renewed(t)
		}
	})
}

// killsOf are the faults of each database. PostgreSQL undoes uncommitted work when a connection ends. On
// MariaDB and MySQL each statement commits, so there the connection is cut before a statement and after it.
var killsOf = map[string][]fault{
	harness.Pgx:      {{name: "after", lose: true}},
	harness.Postgres: {{name: "after", lose: true}},
	harness.MariaDB:  {{name: "before", cut: true}, {name: "after", lose: true}},
	harness.MySQL:    {{name: "before", cut: true}, {name: "after", lose: true}},
	harness.SQLite:   {{name: "before", cut: true}, {name: "1034 SQLITE_IOERR_FSYNC, after", lose: true}},
}

// obstructed returns the way to g on which statements fail.
func (g *testDB) obstructed(t *testing.T) (obstacle, setup) {
	t.Helper()
	if g.Kind == harness.SQLite {
		c, err := sqlite.NewConnector(g.DSN)
		if err != nil {
			t.Fatal(err)
		}
		line := &tripwire{Connector: c}
		return line, setup{opens: line.open}
	}
	line := newToll(t, address(t, g.DSN), wireOf(g.Kind))
	return line, setup{dsn: line.dsn(g.DSN)}
}

// TestOldProgramBeside: on an upgraded database, the statements of the old program work, and
// either program finds what the other one has written.
func TestOldProgramBeside(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onOldDatabases(t, func(t *testing.T, g *testDB) {
		if err := g.upgrade(t.Context(), setup{dsn: g.DSN}, capabilities...); err != nil {
			t.Fatal(err)
		}
		do, log, _ := g.repeats(t)
		if _, err := do("new", ""); err != nil {
			t.Fatal(err)
		}
		g.runOldProgram(t)
		for _, key := range []string{"old", "unknown"} { // the latter was unknown until the old program has finished it
			if r, err := do(key, ""); err != nil || !r.Replayed || r.Value != "old" {
				t.Errorf("%s: %+v, %v", key, r, err)
			}
		}
		if err := log.Close(t.Context()); err != nil {
			t.Error(err)
		}
		for query, want := range map[string]int{
			"select count(*) from once_attempt where node = 'old node'":      1,
			"select count(*) from once_attempt":                              7 + 1 + 3,
			"select count(*) from once_audit":                                2 + 1,
			"select count(*) from once_intent":                               2 + 1,
			"select count(*) from once_migration where version in (1,2,3,4)": 4, // so that its Migrate finds nothing to do
			"select count(*) from once_migration":                            4,
		} {
			if n := g.count(t, query); n != want {
				t.Errorf("%s: %d, want %d", query, n, want)
			}
		}
	})
}

// runOldProgram runs the statements of the old program, which must find what the new one has written under the key "new".
func (g *testDB) runOldProgram(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile("testdata/once_migration/" + string(dialectOf[g.Kind]) + "-statements.sql")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for statement := range strings.SplitSeq(strings.TrimSuffix(string(text), ";\n"), ";\n") {
		if strings.HasPrefix(statement, "select state, ") {
			found = g.count(t, "select state from ("+statement+") as found")
			continue
		}
		g.exec(t, statement)
	}
	if found != int(store.StateDone) {
		t.Errorf("the old program finds state %d", found)
	}
}

// TestUpgradeFromTheMiddle: an old program has not applied all of its migrations when the
// database is upgraded, and does so afterwards.
func TestUpgradeFromTheMiddle(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onOldDatabases(t, func(t *testing.T, g *testDB) {
		drop := "drop table once_attempt;\ndrop table once_audit;\ndrop table once_intent;\n"
		g.exec(t, drop+"delete from once_migration where version > 2")
		if err := g.upgrade(t.Context(), setup{dsn: g.DSN}); err != nil {
			t.Fatal(err)
		}
		if got := g.applied(t, capabilities...); got != "operation 1, operation 2, operation 3, operation 4, operation 5" {
			t.Errorf("after the upgrade: %s", got)
		}
		old, err := migration.All(dialectOf[g.Kind], capabilities...) // with the same text
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range old {
			if m.Version == 1 { // the old program knows no others
				g.exec(t, m.SQL)
			}
		}
		g.exec(t, "insert into once_migration (version, name) values (3, 'attempt'), (4, 'intent')")
		if got := g.applied(t, capabilities...); got != strings.Replace(appliedAfter, ", operate 2", "", 1) {
			t.Errorf("after the old program: %s", got)
		}
		if err := g.upgrade(t.Context(), setup{dsn: g.DSN}, capabilities...); err != nil {
			t.Error(err)
		}
		if n := g.count(t, "select count(*) from once_schema"); n != 9 {
			t.Errorf("%d rows in once_schema", n)
		}
	})
}

// TestRenamedCapability: what a database has noted under the earlier name of a capability counts, and stays as it is, so that programs of
// before and after the change of the name work on it side by side.
func TestRenamedCapability(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onOldDatabases(t, func(t *testing.T, g *testDB) {
		if err := g.upgrade(t.Context(), setup{dsn: g.DSN}, capabilities...); err != nil {
			t.Fatal(err)
		}
		g.exec(t, "update once_schema set capability = 'admin' where capability = 'operate'")
		audited := g.count(t, "select count(*) from once_audit")
		if got := g.applied(t, capabilities...); got != appliedAfter || audited == 0 {
			t.Errorf("%s, %d entries in the audit", got, audited)
		}
		if err := g.upgrade(t.Context(), setup{dsn: g.DSN}, capabilities...); err != nil {
			t.Error(err)
		}
		if n := g.count(t, "select count(*) from once_schema where capability = 'admin'"); n != 2 || g.count(t, "select count(*) from once_audit") != audited {
			t.Errorf("%d rows of a program of before", n)
		}
		g.exec(t, "update once_schema set version = 9 where capability = 'admin' and version = 2")
		if err := g.upgrade(t.Context(), setup{dsn: g.DSN}, operate.Migrations); err == nil || !strings.Contains(err.Error(), "version 9 of the tables of operate") {
			t.Errorf("a later version under the earlier name: %v", err)
		}
	})
}

// TestNewerDatabaseIsRefused: nothing is changed, and the error says what to do. A capability that
// the program does not use is not its concern.
func TestNewerDatabaseIsRefused(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onOldDatabases(t, func(t *testing.T, g *testDB) {
		refused := func(what, want string, sets ...migration.Set) {
			t.Helper()
			err := g.upgrade(t.Context(), setup{dsn: g.DSN}, sets...)
			if err == nil || !strings.Contains(err.Error(), want) || !strings.HasSuffix(err.Error(), "Try: a newer release of once") {
				t.Errorf("%s: %v", what, err)
			}
		}
		g.exec(t, "insert into once_migration (version, name) values (5, 'later')")
		refused("a later version of once_migration", "once_migration of the database has version 5")
		g.exec(t, "delete from once_migration where version = 5")
		if got := g.applied(t, capabilities...); got != appliedBefore {
			t.Errorf("after a refusal: %s", got)
		}
		if err := g.upgrade(t.Context(), setup{dsn: g.DSN}); err != nil {
			t.Fatal(err)
		}
		g.exec(t, "insert into once_schema (capability, version, name) values ('attemptlog', 2, 'later')")
		refused("a later version of the attempt log", "version 2 of the tables of attemptlog, but this program knows only versions up to 1", capabilities...)
		if err := g.upgrade(t.Context(), setup{dsn: g.DSN}, operate.Migrations); err != nil {
			t.Errorf("without the attempt log: %v", err)
		}
		g.exec(t, "insert into once_schema (capability, version, name) values ('operation', 9, 'later')")
		refused("a later version of the store", "version 9 of the tables of operation, but this program knows only versions up to 5")
	})
}
