package torture

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/internal/torture/harness"
	"github.com/oncelib/once/retry/journal"
	"github.com/oncelib/once/store/pgxstore"
	"github.com/oncelib/once/store/sqlstore"
)

// testDB is a database for one store, with a judge who looks at it through a plain
// driver.
type testDB struct {
	name  string // of the store, or of the store and how its database is set up
	store string
	dsn   string
	db    *sql.DB

	dialect func(query string) string // of the judge's questions
}

// newGround makes a database with the tables of store and of the business.
func newGround(tb testing.TB, store string) *testDB {
	tb.Helper()
	switch store {
	case harness.SQLite:
		return sqliteGround(tb, store, "WAL")
	case harness.Group:
		g := sqliteGround(tb, store, "WAL")
		g.store = store
		return g
	case harness.MariaDB:
		return innodbGround(tb, store, testenv.NewMariaDB(tb))
	case harness.MySQL:
		return innodbGround(tb, store, testenv.NewMySQL(tb))
	}
	return postgresGround(tb, store, testenv.NewDatabase(tb))
}

// sqliteGround is set up as production would be, with each COMMIT on the disk.
func sqliteGround(tb testing.TB, name, journal string) *testDB {
	tb.Helper()
	return sqliteAt(tb, tb.TempDir(), name, journal)
}

func sqliteAt(tb testing.TB, dir, name, journal string) *testDB {
	tb.Helper()
	dsn := fmt.Sprintf("file:%s?_pragma=busy_timeout(30000)&_pragma=journal_mode(%s)&_pragma=synchronous(FULL)",
		filepath.Join(dir, "torture.sqlite"), journal)
	migrate(tb, harness.SQLite, dsn)
	g := openGround(tb, harness.SQLite, "sqlite", dsn)
	g.name = name
	// The judge leaves nothing open: the file is the victim's alone.
	g.db.SetMaxIdleConns(0)
	return g
}

func postgresGround(tb testing.TB, store, dsn string) *testDB {
	tb.Helper()
	migrate(tb, store, dsn)
	return openGround(tb, store, "pgx", dsn)
}

func innodbGround(tb testing.TB, store, dsn string) *testDB {
	tb.Helper()
	migrate(tb, store, dsn)
	return openGround(tb, store, "mysql", dsn)
}

func openGround(tb testing.TB, store, driver, dsn string) *testDB {
	tb.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = db.Close() })
	g := &testDB{store, store, dsn, db, func(query string) string { return query }}
	tables := []string{schema}
	if driver == "mysql" {
		g.dialect, tables = mysqlDialect, strings.Split(mysqlSchema, ";")
	}
	if store == harness.MySQL {
		tables = append(tables, mysqlProcedures...)
	}
	for _, table := range tables {
		if _, err := db.Exec(table); err != nil {
			tb.Fatal(err)
		}
	}
	return g
}

// migrate creates the tables of a store and of a client's journal, by the store's own means.
func migrate(tb testing.TB, storeName, dsn string) {
	tb.Helper()
	ctx := tb.Context()
	err := func() error {
		if storeName == harness.Pgx {
			pool, err := openPool(ctx, setup{dsn: dsn})
			if err != nil {
				return err
			}
			defer pool.Close()
			return pgxstore.Migrate(ctx, pool, journal.Migrations)
		}
		driver := map[string]string{harness.Postgres: "pgx", harness.SQLite: "sqlite", harness.MariaDB: "mysql", harness.MySQL: "mysql"}[storeName]
		db, err := sqlstore.Open(driver, dsn)
		if err != nil {
			return err
		}
		defer db.Close()
		return sqlstore.Migrate(ctx, db, journal.Migrations)
	}()
	if err != nil {
		tb.Fatal(err)
	}
}

// open opens a system on the database, as a process of its own would.
func (g *testDB) open(tb testing.TB, su setup) system {
	tb.Helper()
	if su.dsn == "" {
		su.dsn = g.dsn
	}
	s, err := stores[g.store](tb.Context(), su)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Close)
	return s
}

// state is what the database holds for one key.
type state struct {
	Charges, Entries, Keys int
	Attempts               string // executions that stand, in order
}

// state asks the database. Keys are letters, digits and dashes.
func (g *testDB) state(ctx context.Context, key string) (s state, err error) {
	query := fmt.Sprintf(`select (select count(*) from charge where key = '%[1]s'), (select count(*) from entry where key = '%[1]s'),
 (select count(*) from once_operation where key = '%[1]s'), coalesce((select attempts from ledger where key = '%[1]s'), '')`, key)
	err = g.db.QueryRowContext(ctx, g.dialect(query)).Scan(&s.Charges, &s.Entries, &s.Keys, &s.Attempts)
	return s, err
}

// executed is the state after exactly one execution.
func executed(attempt string) state { return state{Charges: 1, Entries: 1, Keys: 1, Attempts: attempt} }

// declined is the state after a final failure.
func declined() state { return state{Keys: 1} }

// until returns when a query says so: what the server waits for, it tells nobody.
func (g *testDB) until(ctx context.Context, query string) error {
	for holds := false; !holds; {
		if err := g.db.QueryRowContext(ctx, query).Scan(&holds); err != nil {
			return fmt.Errorf("waiting until %s: %w", query, err)
		}
	}
	return nil
}
