package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/oncelib/once"
	"github.com/oncelib/once/attemptlog"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlstore"
)

func TestMain(m *testing.M) {
	_ = mysql.SetLogger(&mysql.NopLogger{})
	testenv.Main(m)
}

const schema = `create table charge (id varchar(100) primary key);
create table parent (id integer primary key);
create table child (id integer, parent integer references parent(id) deferrable initially deferred)`

// spelled is a statement in the words of db's dialect.
func spelled(db *sql.DB, statement string) string {
	if _, ok := db.Driver().(*mysql.MySQLDriver); !ok {
		return statement
	}
	return strings.NewReplacer("$1", "?", " key ", " `key` ", " deferrable initially deferred", "", // InnoDB checks at once
		"with recursive c(n) as (select 1 union all select n + 1 from c) select count(*) from c", "select sleep(5)").Replace(statement)
}

// source is a database to open.
type source struct {
	driver, dsn string
	config      sqlstore.Config
}

func newSource(tb testing.TB, kind string) source {
	tb.Helper()
	d := harness.New(tb, kind)
	if d.Driver() == "sqlite" {
		d.DSN = "file:" + filepath.Join(tb.TempDir(), "test.db") + "?_pragma=journal_mode(WAL)&_pragma=busy_timeout(60000)&_pragma=synchronous(FULL)&_pragma=foreign_keys(1)"
	}
	return source{d.Driver(), d.DSN, sqlstore.Config{GroupCommit: kind == harness.Group}}
}

// onSources runs a test on a new database of each kind.
func onSources(t *testing.T, test func(t *testing.T, src source)) {
	t.Helper()
	for _, kind := range harness.SQL {
		t.Run(kind, func(t *testing.T) {
			harness.Cell(t, kind == harness.SQLite || kind == harness.Postgres)
			test(t, newSource(t, kind))
		})
	}
}

// on runs a test on a new, migrated database of each dialect.
func on(t *testing.T, test func(t *testing.T, db *sql.DB, s *sqlstore.Store)) {
	onSources(t, func(t *testing.T, src source) {
		db, s := migrated(t, src)
		test(t, db, s)
	})
}

func migrated(t *testing.T, src source) (*sql.DB, *sqlstore.Store) {
	t.Helper()
	ctx := context.Background()
	db, err := sqlstore.Open(src.driver, src.dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := sqlstore.Migrate(ctx, db); err != nil {
		t.Fatal(err)
	}
	for statement := range strings.SplitSeq(schema, ";") {
		if _, err := db.ExecContext(ctx, spelled(db, statement)); err != nil {
			t.Fatal(err)
		}
	}
	s, err := sqlstore.New(ctx, db, src.config)
	if err != nil {
		t.Fatal(err)
	}
	return db, s
}

func count(t *testing.T, db *sql.DB, query string, args ...any) (n int) {
	t.Helper()
	if err := db.QueryRowContext(context.Background(), spelled(db, query), args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestUnguardedIsRefused: at start, with a word on what to do.
func TestUnguardedIsRefused(t *testing.T) {
	testenv.Both(t)
	onSources(t, func(t *testing.T, src source) {
		db, err := sql.Open(src.driver, src.dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		for _, err := range []error{
			func() error { _, err := sqlstore.New(t.Context(), db, sqlstore.Config{}); return err }(),
			sqlstore.Migrate(t.Context(), db),
		} {
			if err == nil || !strings.Contains(err.Error(), "Try: sqlstore.Open") {
				t.Error(err)
			}
		}
	})
}

// TestNoBusyTimeoutIsRefused: one of two concurrent requests would fail at once.
func TestNoBusyTimeoutIsRefused(t *testing.T) {
	db, err := sqlstore.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "test.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := sqlstore.New(t.Context(), db, sqlstore.Config{}); err == nil || !strings.Contains(err.Error(), "Try: _pragma=busy_timeout") {
		t.Error(err)
	}
}

// TestUnknownDriverIsRefused: no dialect is guessed.
func TestUnknownDriverIsRefused(t *testing.T) {
	if _, err := sqlstore.Open("oracle", ""); err == nil || !strings.Contains(err.Error(), "Try: sqlstore.OpenDB") {
		t.Error(err)
	}
}

// TestMissingTableSaysWhatToDo: the first thing that a newcomer gets wrong.
func TestMissingTableSaysWhatToDo(t *testing.T) {
	testenv.Both(t)
	on(t, func(t *testing.T, db *sql.DB, s *sqlstore.Store) {
		if _, err := db.ExecContext(t.Context(), "drop table once_operation"); err != nil {
			t.Fatal(err)
		}
		_, err := once.Do(t.Context(), once.New(s, once.Config{}), once.Operation{Scope: "s", Key: "k"},
			func(context.Context, *sql.Tx) (int, error) { return 1, nil })
		if once.CodeOf(err) != once.CodeUnavailable || !strings.Contains(err.Error(), "Try: once migrate up") {
			t.Error(err)
		}
	})
}

// TestMigrateTogether: nodes that start at the same time.
func TestMigrateTogether(t *testing.T) {
	testenv.Both(t)
	together := func(t *testing.T, db *sql.DB) {
		t.Helper()
		ctx := t.Context()
		if st, err := sqlstore.Status(ctx, db, attemptlog.Migrations); err != nil || len(st) == 0 || st[0].Applied {
			t.Errorf("before: %v, %v", st, err)
		}
		errs := make(chan error)
		for range 8 {
			go func() { errs <- sqlstore.Migrate(ctx, db, attemptlog.Migrations) }()
		}
		for range 8 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		st, err := sqlstore.Status(ctx, db, attemptlog.Migrations)
		if err != nil || len(st) < 2 {
			t.Errorf("afterwards: %v, %v", st, err)
		}
		for _, m := range st {
			if !m.Applied {
				t.Errorf("%s: %s is not applied", m.Capability, m.File())
			}
		}
	}
	onSources(t, func(t *testing.T, src source) { together(t, opened(t, src)) })
	t.Run("PostgreSQL, where SERIALIZABLE is the default", func(t *testing.T) {
		testenv.Cell(t, testenv.InTest)
		src := newSource(t, harness.Postgres)
		src.dsn += "&default_transaction_isolation=serializable"
		together(t, opened(t, src))
	})
}

func opened(t *testing.T, src source) *sql.DB {
	t.Helper()
	db, err := sqlstore.Open(src.driver, src.dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// TestHandlersThatMisbehave: whatever a handler does to its transaction, what the
// caller is told is true, and the connection is fit for the next.
func TestHandlersThatMisbehave(t *testing.T) {
	testenv.Both(t)
	insert := func(ctx context.Context, tx *sql.Tx, id string) error {
		_, err := tx.ExecContext(ctx, "insert into charge values ('"+id+"')")
		return err
	}
	var endless string
	cases := []struct {
		name string
		code once.Code // "": it succeeds
		run  func(ctx context.Context, tx *sql.Tx, id string) error
	}{
		{"swallows a constraint", once.CodeAborted, func(ctx context.Context, tx *sql.Tx, id string) error {
			_ = insert(ctx, tx, id)
			return nil
		}},
		{"swallows an error of the client", once.CodeAborted, func(ctx context.Context, tx *sql.Tx, _ string) error {
			_, _ = tx.ExecContext(ctx, "insert into charge values ($1)", make(chan int))
			return nil
		}},
		{"heals by a savepoint", "", func(ctx context.Context, tx *sql.Tx, id string) error {
			if _, err := tx.ExecContext(ctx, "savepoint mine"); err != nil {
				return err
			}
			_ = insert(ctx, tx, id)
			_, err := tx.ExecContext(ctx, "rollback to mine")
			return err
		}},
		{"commits raw", once.CodeAborted, func(ctx context.Context, tx *sql.Tx, _ string) error {
			_, _ = tx.ExecContext(ctx, "commit")
			return nil
		}},
		{"calls Commit", once.CodeMisuse, func(_ context.Context, tx *sql.Tx, _ string) error {
			_ = tx.Commit()
			return nil
		}},
		{"calls Rollback", once.CodeMisuse, func(_ context.Context, tx *sql.Tx, _ string) error {
			_ = tx.Rollback()
			return nil
		}},
		{"violates a deferred constraint", once.CodeFailed, func(ctx context.Context, tx *sql.Tx, _ string) error {
			_, err := tx.ExecContext(ctx, "insert into child values (1, -1)")
			return err
		}},
		{"runs out of time", once.CodeFailed, func(ctx context.Context, tx *sql.Tx, _ string) error {
			ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
			defer cancel()
			var n int
			return tx.QueryRowContext(ctx, endless).Scan(&n)
		}},
		{"fails", once.CodeFailed, func(context.Context, *sql.Tx, string) error { return errors.New("failed") }},
	}
	on(t, func(t *testing.T, db *sql.DB, s *sqlstore.Store) {
		e := once.New(s, once.Config{})
		endless = spelled(db, "with recursive c(n) as (select 1 union all select n + 1 from c) select count(*) from c")
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				ctx := context.Background()
				op := once.Operation{Scope: "misbehave", Key: c.name, Wait: time.Minute} // a server may take its time to notice a lost connection
				do := func(run func(context.Context, *sql.Tx, string) error) error {
					_, err := once.Do(ctx, e, op, func(ctx context.Context, tx *sql.Tx) (int, error) {
						if err := insert(ctx, tx, op.Key); err != nil {
							t.Error(err)
						}
						return 1, run(ctx, tx, op.Key)
					})
					return err
				}
				err := do(c.run)
				want := 0
				if c.code == "" {
					want = 1
				}
				if once.CodeOf(err) != c.code || err != nil && once.EffectOf(err) != once.EffectNotApplied {
					t.Errorf("%v, want %q and not applied", err, c.code)
				}
				if n := count(t, db, "select count(*) from charge where id = $1", op.Key); n != want {
					t.Errorf("%d effects, want %d", n, want)
				}
				if n := count(t, db, "select count(*) from once_operation where key = $1", op.Key); n != want {
					t.Errorf("%d records, want %d", n, want)
				}
				if err := do(func(context.Context, *sql.Tx, string) error { return nil }); err != nil {
					t.Error("the retry:", err)
				}
				if n := count(t, db, "select count(*) from charge where id = $1", op.Key); n != 1 {
					t.Errorf("%d effects after the retry", n)
				}
			})
		}
	})
}

// TestJoinOfAnUnguardedTransactionIsRefused: as New refuses its database.
func TestJoinOfAnUnguardedTransactionIsRefused(t *testing.T) {
	testenv.Both(t)
	onSources(t, func(t *testing.T, src source) {
		ctx := t.Context()
		guarded, err := sqlstore.Open(src.driver, src.dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = guarded.Close() }()
		if err := sqlstore.Migrate(ctx, guarded); err != nil {
			t.Fatal(err)
		}
		s, err := sqlstore.New(ctx, guarded, sqlstore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		plain, err := sql.Open(src.driver, src.dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = plain.Close() }()
		tx, err := plain.BeginTx(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		_, err = once.Join(ctx, once.New(s, once.Config{}), tx, once.Operation{Scope: "s", Key: "k"},
			func(context.Context, *sql.Tx) (int, error) { return 1, nil })
		if once.CodeOf(err) != once.CodeMisuse || !strings.Contains(err.Error(), "Try: sqlstore.Open") {
			t.Error(err)
		}
	})
}

// TestOneConnectionIsEnough: nothing asks for a second one while it holds the first.
func TestOneConnectionIsEnough(t *testing.T) {
	testenv.Both(t)
	on(t, func(t *testing.T, db *sql.DB, s *sqlstore.Store) {
		db.SetMaxOpenConns(1)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		e := once.New(s, once.Config{})
		declined := &once.Failure{Code: "declined"}
		for _, fail := range []error{nil, declined, errors.New("transient")} {
			for range 2 {
				_, err := once.Do(ctx, e, once.Operation{Scope: "one", Key: fmt.Sprint(fail)},
					func(context.Context, *sql.Tx) (int, error) { return 1, fail })
				if !errors.Is(err, fail) && !errors.As(err, new(*once.Failure)) {
					t.Errorf("%v: %v", fail, err)
				}
			}
		}
		taken := store.Change{ID: store.ID{Scope: "one", Key: fmt.Sprint(nil)}, Next: store.Record{State: store.StateRunning, Fence: 1, Nonce: []byte("1234567890123456")}, Lease: time.Minute}
		if rec, err := s.Swap(ctx, taken); store.KindOf(err) != store.KindTaken || rec.State != store.StateDone {
			t.Errorf("%+v, %v", rec, err)
		}
	})
}

// TestSQLiteWaitsNoLongerThanItsCaller: for the file, which another process writes; and
// a replay does not wait for it at all.
func TestSQLiteWaitsNoLongerThanItsCaller(t *testing.T) {
	src := newSource(t, harness.SQLite)
	src.dsn = strings.Replace(src.dsn, "busy_timeout(60000)", "busy_timeout(600000)", 1) // a failure hangs
	ctx := context.Background()
	db, err := sqlstore.Open(src.driver, src.dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if err := sqlstore.Migrate(ctx, db); err != nil {
		t.Fatal(err)
	}
	s, err := sqlstore.New(ctx, db, sqlstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	do := func(ctx context.Context, key string) (once.Result[int], error) {
		return once.Do(ctx, once.New(s, once.Config{}), once.Operation{Scope: "s", Key: key}, // a new engine has seen nothing
			func(context.Context, *sql.Tx) (int, error) { return 1, nil })
	}
	if _, err := do(ctx, "done"); err != nil {
		t.Fatal(err)
	}
	writer, err := db.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = writer.Close() }()
	if _, err := writer.ExecContext(ctx, "begin immediate"); err != nil {
		t.Fatal(err)
	}
	if r, err := do(ctx, "done"); err != nil || !r.Replayed {
		t.Errorf("a replay: %+v, %v", r, err)
	}
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if _, err := do(short, "new"); once.CodeOf(err) != once.CodeUnavailable || once.EffectOf(err) != once.EffectNotApplied {
		t.Error(err)
	}
	if _, err := writer.ExecContext(ctx, "rollback"); err != nil {
		t.Fatal(err)
	}
	for range 10 { // whichever connection it gets
		if n := count(t, db, "pragma busy_timeout"); n != 600_000 {
			t.Errorf("busy_timeout left behind: %d", n)
		}
	}
	if _, err := do(ctx, "new"); err != nil {
		t.Error(err)
	}
}
