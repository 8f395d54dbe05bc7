package pgxstore_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/pgxstore"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const schema = `
create table charge (id text primary key, amount int not null);
create table account (id int primary key, balance int not null check (balance >= 0));
create table child (id int, parent int references account(id) deferrable initially deferred);
insert into account select g, 1000000 from generate_series(1, 100) g;`

// openPool returns a pool on a new, migrated database.
func openPool(tb testing.TB, configure ...func(*pgxpool.Config)) *pgxpool.Pool {
	tb.Helper()
	cfg, err := pgxpool.ParseConfig(testenv.NewDatabase(tb))
	if err != nil {
		tb.Fatal(err)
	}
	// On a slow machine, the ping of a connection that was idle for a second would be one more round trip, and would find broken connections.
	cfg.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	for _, c := range configure {
		c(cfg)
	}
	return migrated(tb, cfg)
}

// migrated returns a pool on the database of cfg, with the tables of the tests.
func migrated(tb testing.TB, cfg *pgxpool.Config) *pgxpool.Pool {
	tb.Helper()
	ctx := context.Background()
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(pool.Close)
	if err := pgxstore.Migrate(ctx, pool); err != nil {
		tb.Fatal(err)
	}
	if _, err := pool.Exec(ctx, schema); err != nil {
		tb.Fatal(err)
	}
	return pool
}

func count(tb testing.TB, pool *pgxpool.Pool, query string, args ...any) (n int) {
	tb.Helper()
	if err := pool.QueryRow(context.Background(), query, args...).Scan(&n); err != nil {
		tb.Fatal(err)
	}
	return n
}

// appendTo appends s to a transaction.
func appendTo(tb testing.TB, tx pgx.Tx, s store.Statement) {
	tb.Helper()
	if err := new(pgxstore.Store).On(tx).Append(context.Background(), s); err != nil && store.KindOf(err) != store.KindMisused {
		tb.Error(err)
	}
}
