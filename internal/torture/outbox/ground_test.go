package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/oncelib/once"
	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/pgxstore"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/sqlstore"
)

func TestMain(m *testing.M) {
	_ = mysql.SetLogger(&mysql.NopLogger{})
	if plan := os.Getenv(childEnv); plan != "" {
		os.Exit(beRelay(plan))
	}
	testenv.Main(m)
}

// sqlStore is a store with transactions and tables.
type sqlStore[TX any] interface {
	store.Store[TX]
	sqlplane.SQL[TX]
}

// ground is a new, migrated database and an outbox in it.
type ground[TX any] struct {
	name   string
	store  sqlStore[TX]
	engine *once.Engine[TX]
	box    *outbox.Box[TX]

	begin     func(t *testing.T) (tx TX, end func(commit bool) error) // a transaction of the user's own
	savepoint func(t *testing.T, tx TX) (inner TX, end func(keep bool) error)
}

const chargeTable = "create table charge (id varchar(100) primary key)"

// sqlConfig is a database for package sqlstore.
type sqlConfig struct {
	driver string
	dsn    func(tb testing.TB) string
	config sqlstore.Config
}

func sqliteFile(tb testing.TB) string {
	tb.Helper()
	return "file:" + filepath.Join(tb.TempDir(), "test.db") + "?_pragma=journal_mode(WAL)&_pragma=busy_timeout(60000)"
}

var sqlConfigs = map[string]sqlConfig{
	"SQLite":               {"sqlite", sqliteFile, sqlstore.Config{}},
	"SQLite, GroupCommit":  {"sqlite", sqliteFile, sqlstore.Config{GroupCommit: true}},
	"PostgreSQL, sqlstore": {"pgx", testenv.NewDatabase, sqlstore.Config{}},
	"MariaDB":              {"mysql", testenv.NewMariaDB, sqlstore.Config{}},
	"MySQL":                {"mysql", testenv.NewMySQL, sqlstore.Config{}},
}

func newSQL(t *testing.T, name string) *ground[*sql.Tx] {
	t.Helper()
	c := sqlConfigs[name]
	db, err := sqlstore.Open(c.driver, c.dsn(t))
	must(t, err)
	return newSQLOn(t, name, db, c.config)
}

func newSQLOn(t *testing.T, name string, db *sql.DB, cfg sqlstore.Config) *ground[*sql.Tx] {
	t.Helper()
	t.Cleanup(func() { _ = db.Close() })
	must(t, sqlstore.Migrate(t.Context(), db, outbox.Migrations, deadletter.Migrations, operate.Migrations))
	_, err := db.ExecContext(t.Context(), chargeTable)
	must(t, err)
	s, err := sqlstore.New(t.Context(), db, cfg)
	must(t, err)
	g := groundOn(name, s)
	g.begin = func(t *testing.T) (*sql.Tx, func(bool) error) {
		t.Helper()
		tx, err := db.BeginTx(t.Context(), nil)
		must(t, err)
		return tx, func(commit bool) error {
			if commit {
				return tx.Commit()
			}
			return tx.Rollback()
		}
	}
	g.savepoint = func(t *testing.T, tx *sql.Tx) (*sql.Tx, func(bool) error) {
		t.Helper()
		exec := func(query string) error { _, err := tx.ExecContext(t.Context(), query); return err }
		must(t, exec("savepoint s"))
		return tx, func(keep bool) error {
			if keep {
				return exec("release savepoint s")
			}
			return errors.Join(exec("rollback to savepoint s"), exec("release savepoint s"))
		}
	}
	return g
}

func newPgx(t *testing.T, configure ...func(*pgxpool.Config)) *ground[pgx.Tx] {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(testenv.NewDatabase(t))
	must(t, err)
	cfg.MaxConns = 16
	for _, c := range configure {
		c(cfg)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	must(t, err)
	t.Cleanup(pool.Close)
	must(t, pgxstore.Migrate(t.Context(), pool, outbox.Migrations, deadletter.Migrations, operate.Migrations))
	_, err = pool.Exec(t.Context(), chargeTable)
	must(t, err)
	g := groundOn("pgxstore", pgxstore.New(pool, pgxstore.Config{}))
	end := func(t *testing.T, tx pgx.Tx) func(bool) error {
		t.Helper()
		return func(commit bool) error {
			if commit {
				return tx.Commit(t.Context())
			}
			return tx.Rollback(t.Context())
		}
	}
	g.begin = func(t *testing.T) (pgx.Tx, func(bool) error) {
		t.Helper()
		tx, err := pool.Begin(t.Context())
		must(t, err)
		return tx, end(t, tx)
	}
	g.savepoint = func(t *testing.T, tx pgx.Tx) (pgx.Tx, func(bool) error) {
		t.Helper()
		inner, err := tx.Begin(t.Context())
		must(t, err)
		return inner, end(t, inner)
	}
	return g
}

func groundOn[TX any](name string, s sqlStore[TX]) *ground[TX] {
	g := &ground[TX]{name: name, store: s, box: outbox.New(s, outbox.Config{})}
	g.engine = once.New(s, once.Config{Observer: once.Discard})
	return g
}

// on runs a test on a database of each kind.
func on(t *testing.T, onPgx func(*testing.T, *ground[pgx.Tx]), onSQL func(*testing.T, *ground[*sql.Tx])) {
	t.Helper()
	t.Run("pgxstore", func(t *testing.T) { t.Parallel(); onPgx(t, newPgx(t)) })
	for name := range sqlConfigs {
		t.Run(name, func(t *testing.T) { t.Parallel(); onSQL(t, newSQL(t, name)) })
	}
}

// isServer reports whether transactions run at the same time.
func (g *ground[TX]) isServer() bool { return g.store.Dialect() != sqlplane.SQLite }

// do runs one operation with a new key.
func (g *ground[TX]) do(ctx context.Context, fn func(ctx context.Context, tx TX) error) error {
	return g.doAt(ctx, store.DefaultIsolation, fn)
}

func (g *ground[TX]) doAt(ctx context.Context, level store.Isolation, fn func(ctx context.Context, tx TX) error) error {
	op := once.Operation{Scope: "outbox", Key: once.NewKey(), Isolation: level}
	_, err := once.Do(ctx, g.engine, op, func(ctx context.Context, tx TX) (string, error) { return "", fn(ctx, tx) })
	return err
}

// must adds messages in an operation of their own.
func (g *ground[TX]) mustAdd(t *testing.T, messages ...outbox.Message) {
	t.Helper()
	must(t, g.do(t.Context(), func(ctx context.Context, tx TX) error { return g.box.Add(ctx, tx, messages...) }))
}

// text is a statement in the dialect of the store.
func (g *ground[TX]) text(query string, args ...any) store.Statement {
	return store.Statement{SQL: dialect.Text(g.store.Dialect(), query), Args: args}
}

func (g *ground[TX]) exec(t *testing.T, query string, args ...any) int64 {
	t.Helper()
	n, err := g.store.Pool().Exec(t.Context(), g.text(query, args...))
	must(t, err)
	return n
}

func (g *ground[TX]) count(t *testing.T, query string, args ...any) (n int) {
	t.Helper()
	must(t, g.store.Pool().Query(t.Context(), g.text(query, args...), func(row sqlplane.Row) error { return row.Scan(&n) }))
	return n
}

// charge writes as a handler does.
func (g *ground[TX]) charge(ctx context.Context, tx TX, id string) error {
	_, err := g.store.On(tx).Exec(ctx, g.text("insert into charge (id) values (?)", id))
	return err
}

// rows describes what is in the outbox, in the order of ids: topic key seq type.
func (g *ground[TX]) rows(t *testing.T) (list []string) {
	t.Helper()
	must(t, g.store.Pool().Query(t.Context(), g.text("select topic, KEY, seq, event_type from once_outbox order by id"), func(row sqlplane.Row) error {
		var topic, key, kind string
		var seq *int64
		err := row.Scan(&topic, &key, &seq, &kind)
		text := strings.TrimSpace(topic + " " + key)
		if seq != nil {
			text += fmt.Sprintf(" %d", *seq)
		}
		list = append(list, text+" "+kind)
		return err
	}))
	return list
}

func (g *ground[TX]) wantRows(t *testing.T, want ...string) {
	t.Helper()
	if got := g.rows(t); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the outbox has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func message(topic, key, kind string) outbox.Message {
	return outbox.Message{Topic: topic, Key: key, Type: kind, Payload: []byte(kind)}
}
