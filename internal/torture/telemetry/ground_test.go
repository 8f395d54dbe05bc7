package telemetry

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/prometheus/client_golang/prometheus"
	_ "modernc.org/sqlite"

	"github.com/oncelib/once"
	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/onceprom"
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
	if text := os.Getenv(childEnv); text != "" {
		os.Exit(beChild(text))
	}
	testenv.Main(m)
}

var migrations = []migration.Set{outbox.Migrations, inbox.Migrations, deadletter.Migrations, operate.Migrations}

// sqlStore is a store with transactions and tables.
type sqlStore[TX any] interface {
	store.Store[TX]
	sqlplane.SQL[TX]
}

// ground is a new, migrated database with a table for the effects of handlers.
type ground[TX any] struct{ store sqlStore[TX] }

const effects = "create table effect (k varchar(100) not null)"

func newPgx(t *testing.T) ground[pgx.Tx] {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), testenv.NewDatabase(t))
	must(t, err)
	t.Cleanup(pool.Close)
	must(t, pgxstore.Migrate(t.Context(), pool, migrations...))
	_, err = pool.Exec(t.Context(), effects)
	must(t, err)
	return ground[pgx.Tx]{pgxstore.New(pool, pgxstore.Config{})}
}

func newSQL(t *testing.T, driver, dsn string) ground[*sql.Tx] {
	t.Helper()
	db, err := sqlstore.Open(driver, dsn)
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	must(t, sqlstore.Migrate(t.Context(), db, migrations...))
	_, err = db.ExecContext(t.Context(), effects)
	must(t, err)
	s, err := sqlstore.New(t.Context(), db, sqlstore.Config{})
	must(t, err)
	return ground[*sql.Tx]{s}
}

func sqliteFile(t *testing.T) string {
	t.Helper()
	return "file:" + filepath.Join(t.TempDir(), "test.db") + "?_pragma=journal_mode(WAL)&_pragma=busy_timeout(10000)"
}

// on runs a test on a database of each kind.
func on(t *testing.T, onPgx func(*testing.T, ground[pgx.Tx]), onSQL func(*testing.T, ground[*sql.Tx])) {
	t.Helper()
	cell(t, "pgxstore", testenv.InTest, func(t *testing.T) { onPgx(t, newPgx(t)) })
	cell(t, "SQLite", testenv.InTest, func(t *testing.T) { onSQL(t, newSQL(t, "sqlite", sqliteFile(t))) })
	cell(t, "MariaDB", testenv.InTest, func(t *testing.T) { onSQL(t, newSQL(t, "mysql", testenv.NewMariaDB(t))) })
	cell(t, "MySQL", testenv.InProve, func(t *testing.T) { onSQL(t, newSQL(t, "mysql", testenv.NewMySQL(t))) })
}

// cell runs a part of a test that belongs to one tier.
func cell(t *testing.T, name string, tier testenv.Tier, run func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		testenv.Cell(t, tier)
		t.Parallel()
		run(t)
	})
}

// text is a statement in the dialect of the store.
func (g ground[TX]) text(query string, args ...any) store.Statement {
	return store.Statement{SQL: dialect.Text(g.store.Dialect(), query), Args: args}
}

func (g ground[TX]) exec(t *testing.T, query string, args ...any) {
	t.Helper()
	_, err := g.store.Pool().Exec(t.Context(), g.text(query, args...))
	must(t, err)
}

func (g ground[TX]) count(t *testing.T, query string, args ...any) (n int) {
	t.Helper()
	must(t, g.store.Pool().Query(t.Context(), g.text(query, args...), func(row sqlplane.Row) error { return row.Scan(&n) }))
	return n
}

// pay is a handler that has an effect.
func (g ground[TX]) pay(key string) func(context.Context, TX) (string, error) {
	return func(ctx context.Context, tx TX) (string, error) {
		_, err := g.store.On(tx).Exec(ctx, g.text("insert into effect (k) values (?)", key))
		return "paid", err
	}
}

func operation(key string) once.Operation {
	return once.Operation{Name: "pay", Scope: "s", Key: key, Fingerprint: once.FingerprintOf([]byte(key))}
}

// counters are those of m that are not 0, by name{values of labels in the order of their names}.
func counters(m *onceprom.Metrics) (map[string]float64, error) {
	registry := prometheus.NewRegistry()
	if err := registry.Register(m); err != nil {
		return nil, err
	}
	families, err := registry.Gather()
	found := map[string]float64{}
	for _, f := range families {
		for _, series := range f.GetMetric() {
			var values []string
			for _, l := range series.GetLabel() {
				values = append(values, l.GetValue())
			}
			if v := series.GetCounter().GetValue(); v != 0 {
				found[strings.TrimPrefix(f.GetName(), "once_")+"{"+strings.Join(values, ",")+"}"] = v
			}
		}
	}
	return found, err
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
