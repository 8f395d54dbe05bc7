package operate_test

import (
	"context"
	"database/sql"
	"regexp"
	"strings"
	"testing"

	"github.com/oncelib/once/attemptlog"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/sql/attempts"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/retry/journal"
	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/sqlstore"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// testDB is a new, migrated database.
type testDB struct {
	harness.Database

	dialect  sqlplane.Dialect
	db       *sql.DB
	store    *sqlstore.Store
	plane    sqlplane.Database // store, or a pgxstore on the same database
	keys     *operate.Keys     // on plane
	attempts *attempts.Table
}

// newTestDB opens a database of a kind.
func newTestDB(tb testing.TB, kind string) *testDB {
	tb.Helper()
	g := &testDB{Database: harness.Migrated(tb, kind, []migration.Set{attemptlog.Migrations, operate.Migrations, journal.Migrations}).Interpolated()}
	g.store, g.db = harness.OpenSQL(tb, g.Database)
	g.dialect = g.store.Dialect()
	g.runOn(g.store)
	if kind == harness.Pgx {
		s, _ := harness.OpenPgx(tb, g.Database)
		g.runOn(s)
	}
	return g
}

// runOn has keys and log use plane.
func (g *testDB) runOn(plane sqlplane.Database) {
	g.plane, g.keys, g.attempts = plane, operate.NewKeys(plane), attempts.New(plane)
}

// on runs a test on a database of each kind.
func on(t *testing.T, test func(t *testing.T, g *testDB)) {
	t.Helper()
	onKinds(t, harness.Servers, test)
}

// onSQL runs a test on a database of each kind, through database/sql.
func onSQL(t *testing.T, test func(t *testing.T, g *testDB)) {
	t.Helper()
	onKinds(t, harness.Servers[1:], test)
}

func onKinds(t *testing.T, kinds []string, test func(t *testing.T, g *testDB)) {
	t.Helper()
	harness.Each(t, kinds, func(t *testing.T, kind string) { t.Helper(); test(t, newTestDB(t, kind)) })
}

func must(tb testing.TB, err error) { tb.Helper(); harness.Must(tb, err) }

// exec runs a statement whose texts are literals.
func (g *testDB) exec(tb testing.TB, query string, args ...any) {
	tb.Helper()
	if _, err := g.db.ExecContext(context.Background(), g.text(query), args...); err != nil {
		tb.Fatal(err)
	}
}

func (g *testDB) count(tb testing.TB, query string, args ...any) (n int) {
	tb.Helper()
	if err := g.db.QueryRowContext(context.Background(), g.text(query), args...).Scan(&n); err != nil {
		tb.Fatal(err)
	}
	return n
}

// text is a query in the words of the database. Arguments come in order.
func (g *testDB) text(query string) string {
	if g.dialect == sqlplane.MySQL {
		query = argument.ReplaceAllString(query, "?")
		query = column.ReplaceAllString(query, "`key`")
	}
	return query
}

var (
	argument = regexp.MustCompile(`\$[0-9]`)
	column   = regexp.MustCompile(`\bkey\b`)
)

func contains(err error, text string) bool { return err != nil && strings.Contains(err.Error(), text) }
