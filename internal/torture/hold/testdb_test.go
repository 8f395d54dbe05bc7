package hold

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/internal/torture/harness"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/pgxstore"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/sqlstore"
)

// newDSN makes an empty database for a store.
func newDSN(tb testing.TB, name string) string {
	tb.Helper()
	switch name {
	case harness.SQLite:
		return "file:" + filepath.Join(tb.TempDir(), "hold.db") + "?_pragma=journal_mode(WAL)&_pragma=busy_timeout(60000)"
	case harness.MariaDB:
		return testenv.NewMariaDB(tb)
	case harness.MySQL:
		return testenv.NewMySQL(tb)
	}
	return testenv.NewDatabase(tb)
}

// open opens a store as a process of its own would, with at most conns connections, and the function that closes it.
func open(ctx context.Context, name, dsn string, conns int, migrates bool) (sqlplane.Database, func(), error) {
	if name == harness.Pgx {
		cfg, err := pgxpool.ParseConfig(dsn)
		if err != nil {
			return nil, nil, err
		}
		cfg.MaxConns = int32(conns)
		pool, err := pgxpool.NewWithConfig(ctx, cfg)
		if err != nil {
			return nil, nil, err
		}
		if migrates {
			err = pgxstore.Migrate(ctx, pool, outbox.Migrations)
		}
		return pgxstore.New(pool, pgxstore.Config{}), pool.Close, err
	}
	db, err := openSQL(name, dsn)
	if err != nil {
		return nil, nil, err
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	closeDB := func() { _ = db.Close() }
	if migrates {
		if err := sqlstore.Migrate(ctx, db, outbox.Migrations); err != nil {
			return nil, closeDB, err
		}
	}
	s, err := sqlstore.New(ctx, db, sqlstore.Config{})
	return s, closeDB, err
}

func openSQL(name, dsn string) (*sql.DB, error) {
	if name != harness.MariaDB && name != harness.MySQL {
		return sqlstore.Open(map[string]string{harness.Postgres: "pgx", harness.SQLite: "sqlite"}[name], dsn)
	}
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	cfg.InterpolateParams = true // no round trip is hidden in that of another
	return sqlstore.Open("mysql", cfg.FormatDSN())
}

// newDB opens a new database with the tables of the outbox.
func newDB(tb testing.TB, name string) (db sqlplane.Database, dsn string) {
	tb.Helper()
	dsn = newDSN(tb, name)
	db, closeDB, err := open(tb.Context(), name, dsn, 8, true)
	must(tb, err)
	tb.Cleanup(closeDB)
	return db, dsn
}

// on runs a test for each store, beside other tests.
func on(t *testing.T, test func(t *testing.T, name string)) {
	t.Helper()
	t.Parallel()
	harness.Each(t, harness.Servers, test)
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// statement is one in the dialect of db.
func statement(db sqlplane.Database, query string, args ...any) store.Statement {
	return store.Statement{SQL: dialect.Text(db.Dialect(), query), Args: args}
}

func run(tb testing.TB, r sqlplane.Runner, s store.Statement) (rows int64) {
	tb.Helper()
	rows, err := r.Exec(tb.Context(), s)
	must(tb, err)
	return rows
}
