package integration

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/attemptlog"
	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/retry/journal"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/store/pgxstore"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/sqlstore"
)

// capabilities are those that programs of before once_schema had, and newest are those of today.
var (
	capabilities = []migration.Set{attemptlog.Migrations, operate.Migrations, journal.Migrations}
	newest       = append(slices.Clone(capabilities), outbox.Migrations, deadletter.Migrations, inbox.Migrations)
)

var dialectOf = map[string]sqlplane.Dialect{
	harness.Pgx: sqlplane.PostgreSQL, harness.Postgres: sqlplane.PostgreSQL, harness.MariaDB: sqlplane.MySQL, harness.MySQL: sqlplane.MySQL, harness.SQLite: sqlplane.SQLite,
}

// onOldDatabases runs a test on a database of before once_schema (see
// testdata/once_migration), for each store.
func onOldDatabases(t *testing.T, test func(t *testing.T, g *testDB)) {
	t.Helper()
	testenv.Need(t, "postgresql", "mariadb", "mysql")
	for name := range dialectOf {
		t.Run(name, func(t *testing.T) {
			harness.Cell(t, name == harness.Pgx || name == harness.SQLite || name == harness.MariaDB)
			t.Parallel()
			test(t, oldDatabase(t, name))
		})
	}
}

func oldDatabase(t *testing.T, name string) *testDB {
	t.Helper()
	g := &testDB{name: name}
	if name == harness.SQLite {
		content, err := os.ReadFile("testdata/once_migration/database.sqlite")
		harness.Must(t, err)
		path := filepath.Join(t.TempDir(), "old.db")
		harness.Must(t, os.WriteFile(path, content, 0o600))
		g.Database = harness.Database{Kind: name, DSN: "file:" + path + "?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)"}
	} else {
		g.Database = harness.New(t, name)
	}
	var err error
	g.db, err = sql.Open(g.Driver(), g.DSN)
	harness.Must(t, err)
	t.Cleanup(func() { _ = g.db.Close() })
	g.loadOld(t)
	return g
}

// loadOld makes the database of g an old one.
func (g *testDB) loadOld(t *testing.T) {
	t.Helper()
	switch dialectOf[g.Kind] {
	case sqlplane.SQLite: // is the file
		return
	case sqlplane.PostgreSQL:
		g.exec(t, "drop schema public cascade;\ncreate schema public")
	case sqlplane.MySQL:
		g.exec(t, "drop table if exists once_schema, once_migration, once_operation, once_attempt, once_audit, once_intent, once_stream, once_stream_start, once_outbox, once_outbox_sent, once_outbox_failed, once_outbox_paused, once_outbox_wait, once_hold, once_hold_node, once_deadletter, once_deadletter_attempt, once_deadletter_redrive, once_inbox, once_inbox_position, once_inbox_parked, once_inbox_body, once_inbox_start, once_webhook_endpoint, once_webhook_tenant, once_webhook_event, once_webhook_delivery, once_webhook_attempt, once_webhook_state, once_webhook_hold, once_webhook_hold_node")
	}
	text, err := os.ReadFile("testdata/once_migration/" + string(dialectOf[g.Kind]) + ".sql")
	if err != nil {
		t.Fatal(err)
	}
	g.exec(t, string(text))
}

// renewed returns an old database without what was done to g.
func (g *testDB) renewed(t *testing.T) *testDB {
	t.Helper()
	if g.Kind == harness.SQLite {
		return oldDatabase(t, g.Kind)
	}
	g.loadOld(t)
	return g
}

// exec runs statements; each ends at the end of a line.
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
	if g.Kind == harness.Pgx {
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
	return sqlstore.Open(g.Driver(), su.dsn)
}

// applied returns what Status says, such as "operation 1, operation 2".
func (g *testDB) applied(t *testing.T, sets ...migration.Set) string {
	t.Helper()
	db, err := g.guarded(setup{dsn: g.DSN})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	status, err := sqlstore.Status(t.Context(), db, sets...)
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

// wholeAfterUpgrade checks what an upgrade has left.
func (g *testDB) wholeAfterUpgrade(t *testing.T) {
	t.Helper()
	if got := g.applied(t, newest...); got != appliedAfter+", outbox 1, outbox 2, outbox 3, outbox 4, outbox 5, outbox 6, outbox 7, deadletter 1, deadletter 2, deadletter 3, inbox 1, inbox 2, inbox 3, inbox 4, inbox 5" {
		t.Errorf("applied: %s", got)
	}
	for query, want := range map[string]int{
		"select count(*) from once_schema":                        24,
		"select count(*) from once_migration":                     4, // as the old program has left it
		"select max(version) from once_migration":                 4,
		"select count(*) from once_operation":                     5,
		"select count(*) from once_operation where trace is null": 5,
		"select count(*) from once_attempt":                       7,
		"select count(*) from once_audit":                         2,
		"select count(*) from once_intent":                        2,
		"select count(*) from once_stream":                        0,
		"select count(*) from once_outbox":                        0,
		"select count(*) from once_outbox_sent":                   0,
		"select count(*) from once_outbox_failed":                 0,
		"select count(*) from once_outbox_paused":                 0,
		"select count(*) from once_hold":                          0,
		"select count(*) from once_hold_node":                     0,
		"select count(*) from once_inbox_body":                    0,
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
	do, log, db := g.repeats(t)
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

	table := operate.NewKeys(db)
	timeline, err := table.Timeline(ctx, oldScope, "done", 10)
	if err != nil || len(timeline.Attempts) != 4 {
		t.Fatalf("%+v, %v", timeline, err)
	}
	// The last two are of now, a fraction of a millisecond after each other: any order.
	if a := timeline.Attempts; a[2].Outcome == "mismatch" {
		a[2], a[3] = a[3], a[2]
	}
	for i, want := range []string{"executed", "replayed", "replayed", "mismatch"} {
		if a := timeline.Attempts[i]; a.Outcome != want || i < 2 && a.Node != "node 1" {
			t.Errorf("attempt %d: %+v", i, a)
		}
	}
	if _, err := table.Forget(ctx, operate.By{Who: "eve", Reason: "request 4712"}, operate.ForgetRequest{Scope: oldScope, Key: "done"}); err != nil {
		t.Error(err)
	}
	page, err := table.Audit(ctx, operate.AuditFilter{Scope: oldScope})
	audit := page.Items
	if err != nil || len(audit) != 3 || audit[0].Who != "eve" || audit[1].Who != "bob" || audit[2].Who != "ada" || audit[2].Reason != "request 4711" {
		t.Errorf("%+v, %v", audit, err)
	}

	intents, err := journal.OpenTable(db, journal.Config{})
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

// repeats returns what asks an engine on g's store, the log of its attempts, and that store.
func (g *testDB) repeats(t *testing.T) (repeat, *attemptlog.Log, sqlplane.Database) {
	t.Helper()
	if g.Kind == harness.Pgx {
		pool, err := openPool(t.Context(), setup{dsn: g.DSN})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		s := pgxstore.New(pool, pgxstore.Config{})
		log := attemptlog.New(s, attemptlog.Config{})
		return repeatOn[pgx.Tx](t, s, log), log, s
	}
	db, err := g.guarded(setup{dsn: g.DSN})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	s, err := sqlstore.New(t.Context(), db, sqlstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	log := attemptlog.New(s, attemptlog.Config{})
	return repeatOn[*sql.Tx](t, s, log), log, s
}

func repeatOn[TX any](t *testing.T, s store.Store[TX], log once.Observer) repeat {
	e := once.New(s, once.Config{Observer: log})
	return func(key, request string) (once.Result[string], error) {
		op := once.Operation{Scope: oldScope, Key: key, Fingerprint: once.FingerprintOf([]byte(request))}
		return once.Do(t.Context(), e, op, func(context.Context, TX) (string, error) { return "again", nil })
	}
}
