package telemetry

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/oncelib/once"
	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/onceprom"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/webhook"
)

func TestMain(m *testing.M) { harness.Main[life](m) }

var migrations = []migration.Set{outbox.Migrations, inbox.Migrations, deadletter.Migrations, operate.Migrations, saga.Migrations, webhook.Migrations}

// fixture is a new, migrated database with a table for the effects of handlers.
type fixture[TX any] struct{ store harness.Store[TX] }

const effects = "create table effect (k varchar(100) not null)"

func newPgx(t *testing.T) fixture[pgx.Tx] {
	t.Helper()
	return onPgxOf(t, harness.Migrated(t, harness.Pgx, migrations, effects))
}

func newSQL(t *testing.T, kind string) fixture[*sql.Tx] {
	t.Helper()
	return onSQLOf(t, harness.Migrated(t, kind, migrations, effects))
}

func onPgxOf(t *testing.T, d harness.Database) fixture[pgx.Tx] {
	t.Helper()
	s, _ := harness.OpenPgx(t, d)
	return fixture[pgx.Tx]{s}
}

func onSQLOf(t *testing.T, d harness.Database) fixture[*sql.Tx] {
	t.Helper()
	s, _ := harness.OpenSQL(t, d)
	return fixture[*sql.Tx]{s}
}

// on runs a test on a database of each kind.
func on(t *testing.T, kinds []string, onPgx func(*testing.T, fixture[pgx.Tx]), onSQL func(*testing.T, fixture[*sql.Tx])) {
	t.Helper()
	harness.Each(t, kinds, func(t *testing.T, kind string) {
		t.Helper()
		if kind == harness.Pgx {
			onPgx(t, newPgx(t))
		} else {
			onSQL(t, newSQL(t, kind))
		}
	})
}

// text is a statement in the dialect of the store.
func (g fixture[TX]) text(query string, args ...any) store.Statement {
	return harness.Text(g.store, query, args...)
}

func (g fixture[TX]) exec(t *testing.T, query string, args ...any) {
	t.Helper()
	harness.Exec(t, g.store, query, args...)
}

func (g fixture[TX]) count(t *testing.T, query string, args ...any) int {
	t.Helper()
	return harness.Count(t, g.store, query, args...)
}

// pay is a handler that has an effect.
func (g fixture[TX]) pay(key string) func(context.Context, TX) (string, error) {
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

func must(tb testing.TB, err error) { tb.Helper(); harness.Must(tb, err) }
