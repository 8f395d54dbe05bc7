package pgxstore_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/pgxstore"
	"github.com/oncelib/once/store/storetest"
)

const insertEffect = "insert into effect (key) values ($1)"

// TestConformance runs with statements that stay prepared, as pgx does unless it is told
// otherwise.
func TestConformance(t *testing.T) {
	t.Run("prepared", func(t *testing.T) {
		t.Parallel()
		storetest.Run(t, harness(func(*pgxpool.Config) {}))
	})
}

// TestConformanceOfEachMode runs on the other ways in which pgx can carry statements: beside a
// tracer, and unprepared behind old poolers.
func TestConformanceOfEachMode(t *testing.T) {
	testenv.Prove(t)
	for name, configure := range map[string]func(*pgxpool.Config){
		"traced": func(c *pgxpool.Config) { c.ConnConfig.Tracer = quiet{} },
		"exec":   func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec },
		"simple": func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Run(t, harness(configure))
		})
	}
}

// TestConformanceWithoutLocks is the suite on a server whose advisory locks are granted to all: operations are
// claimed by their commits.
func TestConformanceWithoutLocks(t *testing.T) {
	t.Parallel()
	h := harness(on(t, testenv.WithoutAdvisoryLocks, testenv.WithoutAdvisoryLocksPath))
	h.ClaimsByCommit, h.Brief = true, true
	storetest.Run(t, h)
}

// TestConformanceOfOperations runs what a store without transactions must pass.
func TestConformanceOfOperations(t *testing.T) {
	testenv.Prove(t)
	storetest.RunOperations(t, harness(func(*pgxpool.Config) {}).Operations())
}

// quiet is a tracer of all that an operation sends.
type quiet struct{}

func (quiet) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}
func (quiet) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (quiet) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}
func (quiet) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (quiet) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}
func (quiet) TracePrepareStart(ctx context.Context, _ *pgx.Conn, _ pgx.TracePrepareStartData) context.Context {
	return ctx
}
func (quiet) TracePrepareEnd(context.Context, *pgx.Conn, pgx.TracePrepareEndData) {}

func harness(configure func(*pgxpool.Config)) storetest.Harness[pgx.Tx] {
	return harnessOn(func(tb testing.TB) *pgxpool.Pool {
		tb.Helper()
		return openPool(tb, configure, func(c *pgxpool.Config) { c.MaxConns = 16 })
	})
}

// harnessOn runs on pools that open makes.
func harnessOn(open func(tb testing.TB) *pgxpool.Pool) storetest.Harness[pgx.Tx] {
	var pools sync.Map // store.Store[pgx.Tx] -> *pgxpool.Pool
	pool := func(s store.Store[pgx.Tx]) *pgxpool.Pool {
		p, _ := pools.Load(s)
		return p.(*pgxpool.Pool)
	}
	on := func(p *pgxpool.Pool) store.Store[pgx.Tx] {
		s := pgxstore.New(p, pgxstore.Config{})
		pools.Store(s, p)
		return s
	}
	return storetest.Harness[pgx.Tx]{
		Open: func(tb testing.TB) store.Store[pgx.Tx] {
			p := open(tb)
			if _, err := p.Exec(context.Background(), "create table effect (key text not null); create table setting (key text primary key, value text not null); create table single (id int primary key); insert into single values (1)"); err != nil {
				tb.Fatal(err)
			}
			return on(p)
		},
		Peer: func(tb testing.TB, s store.Store[pgx.Tx]) store.Store[pgx.Tx] {
			p, err := pgxpool.NewWithConfig(context.Background(), pool(s).Config())
			if err != nil {
				tb.Fatal(err)
			}
			tb.Cleanup(p.Close)
			return on(p)
		},
		Advance: func(tb testing.TB, s store.Store[pgx.Tx], d time.Duration) {
			_, err := pool(s).Exec(context.Background(),
				"update once_operation set lease_until = lease_until - $1::interval, expires_at = expires_at - $1::interval, since = since - $1::interval", d)
			if err != nil {
				tb.Fatal(err)
			}
		},
		Write: func(ctx context.Context, tx pgx.Tx, key string) error {
			_, err := tx.Exec(ctx, insertEffect, key)
			return err
		},
		Statement: func(key string) store.Statement {
			return store.Statement{SQL: insertEffect, Args: []any{key}}
		},
		Fail: func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "insert into single values (1)")
			return err
		},
		Effects: func(tb testing.TB, s store.Store[pgx.Tx], key string) int {
			return count(tb, pool(s), "select count(*) from effect where key = $1", key)
		},
		Own: func(tb testing.TB, s store.Store[pgx.Tx]) (pgx.Tx, func(bool) error) {
			tx, err := pool(s).Begin(context.Background())
			if err != nil {
				tb.Fatal(err)
			}
			return tx, func(commit bool) error {
				if commit {
					return tx.Commit(context.Background())
				}
				return tx.Rollback(context.Background())
			}
		},
		Savepoint: func(ctx context.Context, tb testing.TB, tx pgx.Tx) (pgx.Tx, func(bool) error) {
			tb.Helper()
			inner, err := tx.Begin(ctx)
			if err != nil {
				tb.Fatal(err)
			}
			return inner, func(keep bool) error {
				if keep {
					return inner.Commit(ctx)
				}
				return inner.Rollback(ctx)
			}
		},
		End: func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "commit")
			return err
		},
		Set: func(key, value string) store.Statement {
			const set = "insert into setting (key, value) values ($1, $2) on conflict (key) do update set value = excluded.value"
			return store.Statement{SQL: set, Args: []any{key, value}}
		},
		Get: func(ctx context.Context, tx pgx.Tx, key string) (value string, err error) {
			err = tx.QueryRow(ctx, "select value from setting where key = $1", key).Scan(&value)
			return value, err
		},
		Isolations: []store.Isolation{store.DefaultIsolation, store.ReadCommitted, store.RepeatableRead, store.Serializable},
	}
}
