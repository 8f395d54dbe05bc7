package torture

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"modernc.org/sqlite"

	"github.com/oncelib/once"
	"github.com/oncelib/once/admin"
	"github.com/oncelib/once/attemptlog"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/retry/journal"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/store/pgxstore"
	"github.com/oncelib/once/store/sqlstore"
)

var capabilities = []migration.Set{attemptlog.Migrations, admin.Migrations, journal.Migrations}

var dialectOf = map[string]store.Dialect{
	pgxName: store.PostgreSQL, postgresName: store.PostgreSQL, mariadbName: store.MySQL, sqliteName: store.SQLite,
}

// onOldDatabases runs a test on a database of before once_schema (see
// testdata/once_migration), for each store.
func onOldDatabases(t *testing.T, test func(t *testing.T, g *testDB)) {
	t.Helper()
	testenv.Need(t, "postgresql", "mariadb")
	for name := range dialectOf {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, oldDatabase(t, name, ""))
		})
	}
}

// oldDatabase leaves out what is in the file behind the text until.
func oldDatabase(t *testing.T, name, until string) *testDB {
	t.Helper()
	g := &testDB{name: name, store: name}
	driver := "pgx"
	switch dialectOf[name] {
	case store.SQLite:
		content, err := os.ReadFile("testdata/once_migration/database.sqlite")
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "old.db")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		driver, g.dsn = "sqlite", "file:"+path+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)"
	case store.MySQL:
		driver, g.dsn = "mysql", testenv.NewMariaDB(t)
	case store.PostgreSQL:
		g.dsn = testenv.NewDatabase(t)
	}
	var err error
	if g.db, err = sql.Open(driver, g.dsn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.db.Close() })
	g.load(t, until)
	return g
}

// load makes the database of g the old one.
func (g *testDB) load(t *testing.T, until string) {
	t.Helper()
	switch dialectOf[g.store] {
	case store.SQLite: // is the file
		return
	case store.PostgreSQL:
		g.exec(t, "drop schema public cascade;\ncreate schema public")
	case store.MySQL:
		g.exec(t, "drop table if exists once_schema, once_migration, once_operation, once_attempt, once_audit, once_intent")
	}
	text, err := os.ReadFile("testdata/once_migration/" + string(dialectOf[g.store]) + ".sql")
	if err != nil {
		t.Fatal(err)
	}
	list := string(text)
	if until != "" {
		list, _, _ = strings.Cut(list, until)
	}
	g.exec(t, list)
}

// again returns an old database once more, without what was done to g.
func (g *testDB) again(t *testing.T) *testDB {
	t.Helper()
	if g.store == sqliteName {
		return oldDatabase(t, g.store, "")
	}
	g.load(t, "")
	return g
}

// exec runs statements, each of which ends with a line.
func (g *testDB) exec(t *testing.T, text string) {
	t.Helper()
	for statement := range strings.SplitSeq(text, ";\n") {
		if strings.TrimSpace(statement) == "" {
			continue
		}
		if _, err := g.db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

func (g *testDB) count(t *testing.T, query string) (n int) {
	t.Helper()
	if err := g.db.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// upgrade runs the Migrate of g's store.
func (g *testDB) upgrade(ctx context.Context, su setup, sets ...migration.Set) error {
	if g.store == pgxName {
		pool, err := openPool(ctx, su)
		if err != nil {
			return err
		}
		defer pool.Close()
		return pgxstore.Migrate(ctx, pool, sets...)
	}
	db, err := g.guarded(su)
	if err != nil {
		return err
	}
	defer db.Close()
	return sqlstore.Migrate(ctx, db, sets...)
}

func (g *testDB) guarded(su setup) (*sql.DB, error) {
	if su.opens != nil {
		return su.opens(), nil
	}
	return sqlstore.Open(map[store.Dialect]string{store.PostgreSQL: "pgx", store.MySQL: "mysql", store.SQLite: "sqlite"}[dialectOf[g.store]], su.dsn)
}

// applied returns what Status says, such as "operation 1, operation 2".
func (g *testDB) applied(t *testing.T, sets ...migration.Set) string {
	t.Helper()
	var status []migration.Status
	var err error
	if g.store == pgxName {
		pool, e := openPool(t.Context(), setup{dsn: g.dsn})
		if e != nil {
			t.Fatal(e)
		}
		defer pool.Close()
		status, err = pgxstore.Status(t.Context(), pool, sets...)
	} else {
		db, e := g.guarded(setup{dsn: g.dsn})
		if e != nil {
			t.Fatal(e)
		}
		defer db.Close()
		status, err = sqlstore.Status(t.Context(), db, sets...)
	}
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, s := range status {
		if s.Applied {
			list = append(list, fmt.Sprintf("%s %d", s.Capability, s.Version))
		}
	}
	return strings.Join(list, ", ")
}

const (
	appliedBefore = "operation 1, operation 2, attemptlog 1, admin 1, journal 1"
	appliedAfter  = "operation 1, operation 2, operation 3, attemptlog 1, admin 1, journal 1"
)

// TestUpgrade: a database of before once_schema keeps all that is in it.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	onOldDatabases(t, func(t *testing.T, g *testDB) {
		if got := g.applied(t, capabilities...); got != appliedBefore {
			t.Errorf("before: %s", got)
		}
		for range 2 { // the second one finds nothing to do
			if err := g.upgrade(t.Context(), setup{dsn: g.dsn}, capabilities...); err != nil {
				t.Fatal(err)
			}
			g.wholeAfterUpgrade(t)
		}
		g.worksAfterUpgrade(t)
	})
}

// wholeAfterUpgrade checks what an upgrade has left.
func (g *testDB) wholeAfterUpgrade(t *testing.T) {
	t.Helper()
	if got := g.applied(t, capabilities...); got != appliedAfter {
		t.Errorf("applied: %s", got)
	}
	for query, want := range map[string]int{
		"select count(*) from once_schema":                        6,
		"select count(*) from once_migration":                     4, // as the old program has left it
		"select max(version) from once_migration":                 4,
		"select count(*) from once_operation":                     5,
		"select count(*) from once_operation where trace is null": 5,
		"select count(*) from once_attempt":                       7,
		"select count(*) from once_audit":                         2,
		"select count(*) from once_intent":                        2,
	} {
		if n := g.count(t, query); n != want {
			t.Errorf("%s: %d, want %d", query, n, want)
		}
	}
}

// worksAfterUpgrade reads every old row with the code of today, and writes beside it.
func (g *testDB) worksAfterUpgrade(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	do, log := g.repeats(t)
	if r, err := do("done", `{"amount":1}`); err != nil || !r.Replayed || r.Value != "re_1" {
		t.Errorf("done: %+v, %v", r, err)
	}
	if _, err := do("done", `{"amount":100}`); once.CodeOf(err) != once.CodeMismatch {
		t.Errorf("done, with another request: %v", err)
	}
	var declined *once.Failure
	if _, err := do("declined", `{"amount":2}`); !errors.As(err, &declined) || declined.Code != "declined" || declined.Message != "no money" {
		t.Errorf("declined: %v", err)
	}
	if _, err := do("forgotten", `{"amount":4}`); once.CodeOf(err) != once.CodeNoResult {
		t.Errorf("forgotten: %v", err)
	}
	if _, err := do("unknown", `{"amount":6}`); once.CodeOf(err) != once.CodeUnknown {
		t.Errorf("unknown: %v", err)
	}
	for _, key := range []string{"failed", "expired", "new"} {
		if r, err := do(key, `{"amount":5}`); err != nil || r.Replayed || r.Value != "again" {
			t.Errorf("%s: %+v, %v", key, r, err)
		}
	}
	if err := log.Close(ctx); err != nil {
		t.Error(err)
	}

	table, err := admin.Open(g.db, dialectOf[g.store])
	if err != nil {
		t.Fatal(err)
	}
	timeline, err := table.Timeline(ctx, oldScope, "done", 10)
	if err != nil || len(timeline.Attempts) != 4 {
		t.Fatalf("%+v, %v", timeline, err)
	}
	for i, want := range []string{"executed", "replayed", "replayed", "mismatch"} {
		if a := timeline.Attempts[i]; a.Outcome != want || i < 2 && a.Node != "node 1" {
			t.Errorf("attempt %d: %+v", i, a)
		}
	}
	if _, err := table.Forget(ctx, admin.ForgetRequest{Scope: oldScope, Key: "done", Who: "eve", Reason: "request 4712"}); err != nil {
		t.Error(err)
	}
	audit, err := table.Audit(ctx, oldScope, 0, 10)
	if err != nil || len(audit) != 3 || audit[0].Who != "eve" || audit[1].Who != "bob" || audit[2].Who != "ada" || audit[2].Reason != "request 4711" {
		t.Errorf("%+v, %v", audit, err)
	}

	intents, err := journal.OpenTable(g.db, dialectOf[g.store], journal.Config{})
	if err != nil {
		t.Fatal(err)
	}
	list, err := intents.List(ctx)
	if err != nil || len(list) != 2 {
		t.Fatalf("%+v, %v", list, err)
	}
	for _, in := range list {
		switch {
		case in.Key == "refund:1" && in.Held == "" && string(in.Body) == `{"amount":1}` && in.Header.Get("Content-Type") == "application/json":
		case in.Key == "refund:2" && in.Held != "" && string(in.Body) == "\x00\xff":
		default:
			t.Errorf("%+v", in)
		}
	}
	begun, err := intents.Begin(ctx, journal.Intent{
		Key: "refund:1", Method: "POST", URL: "https://bank.example/refunds",
		Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(`{"amount":1}`),
	})
	if err != nil || !begun.Again {
		t.Errorf("%+v, %v", begun, err)
	}
}

const oldScope = "acme POST /refunds"

type repeat func(key, request string) (once.Result[string], error)

// repeats returns what asks an engine on g's store, and the log of its attempts.
func (g *testDB) repeats(t *testing.T) (repeat, *attemptlog.Log) {
	t.Helper()
	if g.store == pgxName {
		pool, err := openPool(t.Context(), setup{dsn: g.dsn})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		s := pgxstore.New(pool)
		log := attemptlog.New(s, attemptlog.Config{})
		return repeatOn[pgx.Tx](t, s, log), log
	}
	db, err := g.guarded(setup{dsn: g.dsn})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	s, err := sqlstore.New(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	log := attemptlog.New(s, attemptlog.Config{})
	return repeatOn[*sql.Tx](t, s, log), log
}

func repeatOn[TX any](t *testing.T, s store.Store[TX], log once.Observer) repeat {
	e := once.New(s, once.Config{Observer: log})
	return func(key, request string) (once.Result[string], error) {
		op := once.Operation{Scope: oldScope, Key: key, Fingerprint: once.FingerprintOf([]byte(request))}
		return once.Do(t.Context(), e, op, func(context.Context, TX) (string, error) { return "again", nil })
	}
}

// TestUpgradeKilled: the upgrade loses its connection at each of its statements, before the
// statement or after it, and the next upgrade completes it.
func TestUpgradeKilled(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	onOldDatabases(t, func(t *testing.T, g *testDB) {
		for _, f := range killsOf[g.store] {
			struck := 0
			for at := 1; ; at++ {
				line, su := g.obstructed(t)
				line.arm(at, f)
				err := g.upgrade(t.Context(), su, capabilities...)
				if !line.struck() {
					if err != nil {
						t.Errorf("not killed: %v", err)
					}
					break
				}
				struck++
				if err := g.upgrade(t.Context(), setup{dsn: g.dsn}, capabilities...); err != nil {
					t.Errorf("%s statement %d: %v", f.name, at, err)
				}
				g.wholeAfterUpgrade(t)
				g = g.again(t)
			}
			g.worksAfterUpgrade(t)
			g = g.again(t)
			if struck < 10 {
				t.Errorf("killed at %d statements only", struck)
			}
		}
	})
}

// killsOf are the faults. What is not committed is lost with the connection. On MariaDB, where
// each statement commits, it makes a difference whether the one that is cut has been executed.
var killsOf = map[string][]fault{
	pgxName:      {{name: "after", lose: true}},
	postgresName: {{name: "after", lose: true}},
	mariadbName:  {{name: "before", cut: true}, {name: "after", lose: true}},
	sqliteName:   {{name: "before", cut: true}, {name: "1034 SQLITE_IOERR_FSYNC, after", lose: true}},
}

// obstructed returns the way to g on which statements fail.
func (g *testDB) obstructed(t *testing.T) (obstacle, setup) {
	t.Helper()
	if g.store == sqliteName {
		c, err := sqlite.NewConnector(g.dsn)
		if err != nil {
			t.Fatal(err)
		}
		line := &tripwire{Connector: c}
		return line, setup{opens: line.open}
	}
	line := newToll(t, address(t, g.dsn), wireOf(g.store))
	return line, setup{dsn: line.dsn(g.dsn)}
}

// TestOldProgramBeside: on an upgraded database, the statements of the old program work, and
// either program finds what the other one has written.
func TestOldProgramBeside(t *testing.T) {
	t.Parallel()
	onOldDatabases(t, func(t *testing.T, g *testDB) {
		if err := g.upgrade(t.Context(), setup{dsn: g.dsn}, capabilities...); err != nil {
			t.Fatal(err)
		}
		do, log := g.repeats(t)
		if _, err := do("new", ""); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile("testdata/once_migration/" + string(dialectOf[g.store]) + "-statements.sql")
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

// TestUpgradeFromTheMiddle: an old program has not applied all of its migrations when the
// database is upgraded, and does so afterwards.
func TestUpgradeFromTheMiddle(t *testing.T) {
	t.Parallel()
	onOldDatabases(t, func(t *testing.T, g *testDB) {
		drop := "drop table once_attempt;\ndrop table once_audit;\ndrop table once_intent;\n"
		g.exec(t, drop+"delete from once_migration where version > 2")
		if err := g.upgrade(t.Context(), setup{dsn: g.dsn}); err != nil {
			t.Fatal(err)
		}
		if got := g.applied(t, capabilities...); got != "operation 1, operation 2, operation 3" {
			t.Errorf("after the upgrade: %s", got)
		}
		old, err := migration.All(dialectOf[g.store], capabilities...) // with the same text
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range old {
			g.exec(t, m.SQL)
		}
		g.exec(t, "insert into once_migration (version, name) values (3, 'attempt'), (4, 'intent')")
		if got := g.applied(t, capabilities...); got != appliedAfter {
			t.Errorf("after the old program: %s", got)
		}
		if err := g.upgrade(t.Context(), setup{dsn: g.dsn}, capabilities...); err != nil {
			t.Error(err)
		}
		if n := g.count(t, "select count(*) from once_schema"); n != 6 {
			t.Errorf("%d rows in once_schema", n)
		}
	})
}

// TestNewerDatabaseIsRefused: nothing is changed, and the error says what to do. A capability that
// the program does not use is not its concern.
func TestNewerDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	onOldDatabases(t, func(t *testing.T, g *testDB) {
		refused := func(what, want string, sets ...migration.Set) {
			t.Helper()
			err := g.upgrade(t.Context(), setup{dsn: g.dsn}, sets...)
			if err == nil || !strings.Contains(err.Error(), want) || !strings.HasSuffix(err.Error(), "Try: a newer release of once") {
				t.Errorf("%s: %v", what, err)
			}
		}
		g.exec(t, "insert into once_migration (version, name) values (5, 'later')")
		refused("a later version of once_migration", "version 5 in once_migration")
		g.exec(t, "delete from once_migration where version = 5")
		if got := g.applied(t, capabilities...); got != appliedBefore {
			t.Errorf("after a refusal: %s", got)
		}
		if err := g.upgrade(t.Context(), setup{dsn: g.dsn}); err != nil {
			t.Fatal(err)
		}
		g.exec(t, "insert into once_schema (capability, version, name) values ('attemptlog', 2, 'later')")
		refused("a later version of the attempt log", "version 2 of attemptlog, this program knows 1", capabilities...)
		if err := g.upgrade(t.Context(), setup{dsn: g.dsn}, admin.Migrations); err != nil {
			t.Errorf("without the attempt log: %v", err)
		}
		g.exec(t, "insert into once_schema (capability, version, name) values ('operation', 9, 'later')")
		refused("a later version of the store", "version 9 of operation, this program knows 3")
	})
}
