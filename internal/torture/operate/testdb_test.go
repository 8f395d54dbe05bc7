package operate_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/oncelib/once/attemptlog"
	"github.com/oncelib/once/internal/sql/attempts"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/retry/journal"
	"github.com/oncelib/once/store/pgxstore"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/sqlstore"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// mariadb is the name of a kind of database whose dialect is that of MySQL.
const mariadb = "mariadb"

// testDB is a new, migrated database.
type testDB struct {
	dialect     sqlplane.Dialect
	driver, dsn string
	db          *sql.DB
	store       *sqlstore.Store
	plane       sqlplane.Database // store, or a pgxstore on the same database
	keys        *operate.Keys     // on plane
	attempts    *attempts.Table
}

// newGround opens a database of a kind: a dialect, or mariadb.
func newGround(tb testing.TB, kind string) *testDB {
	tb.Helper()
	d := sqlplane.Dialect(kind)
	if kind == mariadb {
		d = sqlplane.MySQL
	}
	g := &testDB{dialect: d, driver: "sqlite", dsn: "file:" + filepath.Join(tb.TempDir(), "test.db") +
		"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(10000)"}
	if d == sqlplane.MySQL {
		created := testenv.NewMySQL
		if kind == mariadb {
			created = testenv.NewMariaDB
		}
		cfg, err := mysql.ParseDSN(created(tb))
		must(tb, err)
		cfg.InterpolateParams = true // no call is hidden in that of another
		g.driver, g.dsn = "mysql", cfg.FormatDSN()
	}
	if d == sqlplane.PostgreSQL {
		g.driver, g.dsn = "pgx", testenv.NewDatabase(tb)
	}
	var err error
	if g.db, err = sqlstore.Open(g.driver, g.dsn); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = g.db.Close() })
	must(tb, sqlstore.Migrate(context.Background(), g.db, attemptlog.Migrations, operate.Migrations, journal.Migrations))
	g.store, err = sqlstore.New(context.Background(), g.db, sqlstore.Config{})
	must(tb, err)
	g.runOn(g.store)
	return g
}

// newPgx is a testDB whose keys and log use a pgx pool.
func newPgx(tb testing.TB) *testDB {
	tb.Helper()
	g := newGround(tb, string(sqlplane.PostgreSQL))
	pool, err := pgxpool.New(context.Background(), g.dsn)
	must(tb, err)
	tb.Cleanup(pool.Close)
	g.runOn(pgxstore.New(pool, pgxstore.Config{}))
	return g
}

// runOn has keys and log use plane.
func (g *testDB) runOn(plane sqlplane.Database) {
	g.plane, g.keys, g.attempts = plane, operate.NewKeys(plane), attempts.New(plane)
}

// on runs a test on a database of each kind, and on PostgreSQL through pgx as well.
func on(t *testing.T, test func(t *testing.T, g *testDB)) {
	t.Helper()
	onSQL(t, test)
	t.Run("pgx", func(t *testing.T) { t.Parallel(); test(t, newPgx(t)) })
}

// onSQL runs a test on a database of each kind, through database/sql.
func onSQL(t *testing.T, test func(t *testing.T, g *testDB)) {
	t.Helper()
	for _, kind := range []string{string(sqlplane.SQLite), string(sqlplane.PostgreSQL), string(sqlplane.MySQL), mariadb} {
		t.Run(kind, func(t *testing.T) { t.Parallel(); test(t, newGround(t, kind)) })
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

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
