package hold

import (
	"testing"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/store/sqlplane"
)

func TestMain(m *testing.M) { harness.Main[plan](m) }

// migrations are those of the outbox, which has the tables.
var migrations = []migration.Set{outbox.Migrations}

// open opens a database with so many connections at most until the test ends.
func open(tb testing.TB, d harness.Database, conns int) sqlplane.Database {
	tb.Helper()
	db, closeDB, err := d.Open(tb.Context(), conns)
	must(tb, err)
	tb.Cleanup(closeDB)
	return db
}

// newDB opens a new database.
func newDB(tb testing.TB, kind string) (sqlplane.Database, harness.Database) {
	tb.Helper()
	d := harness.Migrated(tb, kind, migrations).Interpolated()
	return open(tb, d, 8), d
}

// on runs a test on a database of each kind, beside other tests.
func on(t *testing.T, test func(t *testing.T, kind string)) {
	t.Helper()
	t.Parallel()
	harness.Each(t, harness.Servers, test)
}

func must(tb testing.TB, err error) { tb.Helper(); harness.Must(tb, err) }

// statement is one in the dialect of db.
func statement(db sqlplane.Database, query string, args ...any) store.Statement {
	return harness.Text(db, query, args...)
}

func run(tb testing.TB, r sqlplane.Runner, s store.Statement) (rows int64) {
	tb.Helper()
	rows, err := r.Exec(tb.Context(), s)
	must(tb, err)
	return rows
}
