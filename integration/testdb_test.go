package integration

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/retry/journal"
	"github.com/oncelib/once/store/migration"
)

// testDB is a database for one store, with a judge who looks at it through a plain
// driver.
type testDB struct {
	harness.Database

	name string // of the kind, or of the kind and how its database is set up
	db   *sql.DB

	dialect func(query string) string // of the judge's questions
}

// newTestDB makes a database with the tables of a store and of the business.
func newTestDB(tb testing.TB, kind string) *testDB {
	tb.Helper()
	if kind == harness.SQLite || kind == harness.Group {
		g := sqliteTestDB(tb, kind, "WAL")
		g.Kind = kind
		return g
	}
	return openTestDB(tb, harness.New(tb, kind))
}

// sqliteTestDB is set up as production would be, with each COMMIT on the disk.
func sqliteTestDB(tb testing.TB, name, journal string) *testDB {
	tb.Helper()
	return sqliteAt(tb, tb.TempDir(), name, journal)
}

func sqliteAt(tb testing.TB, dir, name, journal string) *testDB {
	tb.Helper()
	g := openTestDB(tb, harness.Database{Kind: harness.SQLite, DSN: fmt.Sprintf("file:%s?_pragma=busy_timeout(30000)&_pragma=journal_mode(%s)&_pragma=synchronous(FULL)",
		filepath.Join(dir, "torture.sqlite"), journal)})
	g.name = name
	// The judge leaves nothing open: the file is the victim's alone.
	g.db.SetMaxIdleConns(0)
	return g
}

// serverTestDB uses a database on a server of the test's own.
func serverTestDB(tb testing.TB, kind, dsn string) *testDB {
	tb.Helper()
	return openTestDB(tb, harness.Database{Kind: kind, DSN: dsn})
}

// openTestDB creates the tables, of a client's journal as well.
func openTestDB(tb testing.TB, d harness.Database) *testDB {
	tb.Helper()
	g := &testDB{d, d.Kind, nil, func(query string) string { return query }}
	tables := []string{schema}
	if d.Driver() == "mysql" {
		g.dialect, tables = mysqlDialect, strings.Split(mysqlSchema, ";")
	}
	if d.Kind == harness.MySQL {
		tables = append(tables, mysqlProcedures...)
	}
	err := d.Migrate(tb.Context(), []migration.Set{journal.Migrations})
	if err == nil {
		g.db, err = sql.Open(d.Driver(), d.DSN)
	}
	harness.Must(tb, err)
	tb.Cleanup(func() { _ = g.db.Close() })
	for _, table := range tables {
		_, err := g.db.Exec(table)
		harness.Must(tb, err)
	}
	return g
}

// open opens a system on the database, as a process of its own would.
func (g *testDB) open(tb testing.TB, su setup) system {
	tb.Helper()
	if su.dsn == "" {
		su.dsn = g.DSN
	}
	s, err := stores[g.Kind](tb.Context(), su)
	harness.Must(tb, err)
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

// until returns when a query says so: the server sends no signal when it waits.
func (g *testDB) until(ctx context.Context, query string) error {
	for holds := false; !holds; {
		if err := g.db.QueryRowContext(ctx, query).Scan(&holds); err != nil {
			return fmt.Errorf("waiting until %s: %w", query, err)
		}
	}
	return nil
}
