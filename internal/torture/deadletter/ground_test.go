package deadletter

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/oncelib/once"
	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/store/pgxstore"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/sqlstore"
)

func TestMain(m *testing.M) {
	_ = mysql.SetLogger(&mysql.NopLogger{})
	if place := os.Getenv(childEnv); place != "" {
		os.Exit(redriveChild(place))
	}
	testenv.Main(m)
}

var sets = []migration.Set{operate.Migrations, outbox.Migrations, inbox.Migrations, deadletter.Migrations}

// ground is a new, migrated database.
type ground struct {
	sqlplane.Database

	box      box
	consumer func(cfg inbox.Config, fn handler) consumer
}

// handler applies a message of an inbox.
type handler func(ctx context.Context, r sqlplane.Runner, m inbox.Message) error

// consumer is an inbox with its handler.
type consumer struct {
	handle func(ctx context.Context, m inbox.Message) (inbox.Outcome, error)
	run    func(ctx context.Context) error
}

// sqlStore is a store with transactions and tables.
type sqlStore[TX any] interface {
	store.Store[TX]
	sqlplane.SQL[TX]
}

func newGround[TX any](s sqlStore[TX]) *ground {
	engine := once.New(s, once.Config{Observer: once.Discard})
	return &ground{s, outbox.New(s, outbox.Config{}), func(cfg inbox.Config, fn handler) consumer {
		in := inbox.New(engine, cfg)
		apply := func(ctx context.Context, tx TX, m inbox.Message) error { return fn(ctx, s.On(tx), m) }
		return consumer{
			func(ctx context.Context, m inbox.Message) (inbox.Outcome, error) { return in.Handle(ctx, m, apply) },
			func(ctx context.Context) error { return in.Run(ctx, apply) },
		}
	}}
}

// box is the outbox of the database.
type box interface {
	Relay(p outbox.Publisher, cfg outbox.RelayConfig) *outbox.Relay
}

// sqlDrivers are the databases of package sqlstore.
var sqlDrivers = map[string]struct {
	driver string
	dsn    func(tb testing.TB) string
}{
	"SQLite":               {"sqlite", sqliteFile},
	"PostgreSQL, sqlstore": {"pgx", testenv.NewDatabase},
	"MariaDB":              {"mysql", testenv.NewMariaDB},
	"MySQL":                {"mysql", testenv.NewMySQL},
}

func sqliteFile(tb testing.TB) string {
	tb.Helper()
	return "file:" + filepath.Join(tb.TempDir(), "test.db") + "?_pragma=journal_mode(WAL)&_pragma=busy_timeout(10000)"
}

// on runs a test on a database of each kind.
func on(t *testing.T, test func(t *testing.T, g *ground)) {
	t.Helper()
	t.Run("pgxstore", func(t *testing.T) { t.Parallel(); test(t, newPgx(t)) })
	for name := range sqlDrivers {
		t.Run(name, func(t *testing.T) { t.Parallel(); test(t, newSQL(t, name)) })
	}
}

func newPgx(t *testing.T) *ground {
	t.Helper()
	return openPgx(t, testenv.NewDatabase(t))
}

func openPgx(t *testing.T, dsn string) *ground {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), dsn)
	must(t, err)
	t.Cleanup(pool.Close)
	must(t, pgxstore.Migrate(t.Context(), pool, sets...))
	return newGround(pgxstore.New(pool, pgxstore.Config{}))
}

func newSQL(t *testing.T, name string) *ground {
	t.Helper()
	c := sqlDrivers[name]
	return openSQL(t, c.driver, c.dsn(t))
}

func openSQL(t *testing.T, driver, dsn string) *ground {
	t.Helper()
	db, err := sqlstore.Open(driver, dsn)
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	must(t, sqlstore.Migrate(t.Context(), db, sets...))
	return groundOn(t, db)
}

func groundOn(t *testing.T, db *sql.DB) *ground {
	t.Helper()
	s, err := sqlstore.New(t.Context(), db, sqlstore.Config{})
	must(t, err)
	return newGround(s)
}

func (g *ground) text(query string, args ...any) store.Statement {
	return store.Statement{SQL: dialect.Text(g.Dialect(), query), Args: args}
}

func (g *ground) exec(t *testing.T, query string, args ...any) int64 {
	t.Helper()
	n, err := g.Pool().Exec(t.Context(), g.text(query, args...))
	must(t, err)
	return n
}

func (g *ground) count(t *testing.T, query string, args ...any) (n int) {
	t.Helper()
	must(t, g.Pool().Query(t.Context(), g.text(query, args...), func(row sqlplane.Row) error { return row.Scan(&n) }))
	return n
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
