package telemetry

import (
	"context"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once/gauge"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/base/gaugename"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store/pgxstore"
	"github.com/oncelib/once/store/sqlstore"
)

// TestPoolGaugesWhereNoConnectionIsFree: an exhausted pool is told, and that takes no connection.
func TestPoolGaugesWhereNoConnectionIsFree(t *testing.T) {
	t.Parallel()
	exhausted := func(t *testing.T, source gauge.Func) {
		t.Helper()
		values, err := source.Gauges(t.Context())
		must(t, err)
		want := []gauge.Value{
			{Name: gaugename.PoolConnections, Label: "in_use", Number: 1}, {Name: gaugename.PoolConnections, Label: "idle"}, {Name: gaugename.PoolMaxConnections, Number: 1},
		}
		if !slices.Equal(values, want) {
			t.Errorf("%v, want %v", values, want)
		}
	}
	t.Run("pgxstore", func(t *testing.T) {
		t.Parallel()
		cfg, err := pgxpool.ParseConfig(testenv.NewDatabase(t))
		must(t, err)
		cfg.MaxConns = 1
		pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
		must(t, err)
		defer pool.Close()
		conn, err := pool.Acquire(t.Context())
		must(t, err)
		defer conn.Release()
		exhausted(t, gauge.Pool(pgxstore.New(pool, pgxstore.Config{})))
	})
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		db, err := harness.New(t, harness.SQLite).DB()
		must(t, err)
		defer db.Close()
		must(t, sqlstore.Migrate(t.Context(), db))
		s, err := sqlstore.New(t.Context(), db, sqlstore.Config{})
		must(t, err)
		db.SetMaxOpenConns(1)
		db.SetMaxIdleConns(0)
		conn, err := db.Conn(context.WithoutCancel(t.Context()))
		must(t, err)
		defer conn.Close()
		exhausted(t, gauge.Pool(s))
	})
}
