package outbox

import (
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store/pgxstore"
	"github.com/oncelib/once/store/sqlstore"
)

// cell is a store and a destination of relays.
type cell struct{ store, to string }

// onCells runs a test on every cell that choose does not skip.
func onCells(t *testing.T, choose func(t *testing.T, c cell), onPgx func(*testing.T, *ground[pgx.Tx], relayPlan, destination), onSQL func(*testing.T, *ground[*sql.Tx], relayPlan, destination)) {
	t.Helper()
	for to, open := range destinations {
		t.Run("pgxstore, "+to, func(t *testing.T) {
			choose(t, cell{"pgxstore", to})
			t.Parallel()
			g, p := sharedPgx(t)
			p.To = to
			d := open(t, &p)
			onPgx(t, g, p, d)
		})
		for name, c := range sqlConfigs {
			if c.config.GroupCommit {
				continue
			}
			t.Run(name+", "+to, func(t *testing.T) {
				choose(t, cell{name, to})
				t.Parallel()
				g, p := shared(t, c)
				p.To = to
				d := open(t, &p)
				onSQL(t, g, p, d)
			})
		}
	}
}

// sharedPgx is a database that processes share, and how they reach it.
func sharedPgx(t *testing.T) (*ground[pgx.Tx], relayPlan) {
	t.Helper()
	return sharedPgxAt(t, testenv.NewDatabase(t))
}

func sharedPgxAt(t *testing.T, dsn string) (*ground[pgx.Tx], relayPlan) {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), dsn)
	must(t, err)
	t.Cleanup(pool.Close)
	must(t, pgxstore.Migrate(t.Context(), pool, outbox.Migrations))
	g := groundOn("pgxstore", pgxstore.New(pool, pgxstore.Config{}))
	g.begin = func(t *testing.T) (pgx.Tx, func(bool) error) {
		t.Helper()
		tx, err := pool.Begin(t.Context())
		must(t, err)
		return tx, func(commit bool) error {
			if commit {
				return tx.Commit(t.Context())
			}
			return tx.Rollback(t.Context())
		}
	}
	return g, relayPlan{DSN: dsn}
}

// shared is sharedPgx for package sqlstore.
func shared(t *testing.T, c sqlConfig) (*ground[*sql.Tx], relayPlan) {
	t.Helper()
	dsn := c.dsn(t)
	db, err := sqlstore.Open(c.driver, dsn)
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	must(t, sqlstore.Migrate(t.Context(), db, outbox.Migrations))
	s, err := sqlstore.New(t.Context(), db, sqlstore.Config{})
	must(t, err)
	g := groundOn(c.driver, s)
	g.begin = func(t *testing.T) (*sql.Tx, func(bool) error) {
		t.Helper()
		tx, err := db.BeginTx(t.Context(), nil)
		must(t, err)
		return tx, func(commit bool) error {
			if commit {
				return tx.Commit()
			}
			return tx.Rollback()
		}
	}
	return g, relayPlan{Driver: c.driver, DSN: dsn}
}
