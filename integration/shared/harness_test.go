package shared

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once/attemptlog"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
	"github.com/oncelib/once/store/pgxstore"
	"github.com/oncelib/once/store/storetest"
)

type tx = *memstore.Tx

// onMemory makes each effect of a key a row of its own, numbered.
func onMemory() storetest.Harness[tx] {
	var mu sync.Mutex
	rows := map[string]int{}
	name := func(key string, n int) string { return fmt.Sprintf("effect/%s/%d", key, n) }
	next := func(key string) string {
		mu.Lock()
		defer mu.Unlock()
		rows[key]++
		return name(key, rows[key])
	}
	return storetest.Harness[tx]{
		Open:    func(testing.TB) store.Store[tx] { return memstore.New() },
		Peer:    func(_ testing.TB, s store.Store[tx]) store.Store[tx] { return s },
		Advance: func(_ testing.TB, s store.Store[tx], d time.Duration) { s.(*memstore.Store).Advance(d) },
		Write:   func(_ context.Context, t tx, key string) error { return t.Put(next(key), "") },
		Statement: func(key string) store.Statement {
			return store.Statement{SQL: "insert", Args: []any{next(key), ""}}
		},
		Fail: func(_ context.Context, t tx) error {
			return errors.Join(t.Put("taken", ""), t.Insert("taken", ""))
		},
		Effects: func(_ testing.TB, s store.Store[tx], key string) (n int) {
			mu.Lock()
			defer mu.Unlock()
			for i := range rows[key] {
				if _, ok := s.(*memstore.Store).Get(name(key, i+1)); ok {
					n++
				}
			}
			return n
		},
		Own: func(_ testing.TB, s store.Store[tx]) (tx, func(bool) error) {
			t := s.(*memstore.Store).BeginTx()
			return t, func(commit bool) error {
				if commit {
					return t.Commit()
				}
				t.Rollback()
				return nil
			}
		},
		End:        func(_ context.Context, t tx) error { return t.Commit() },
		Isolations: []store.Isolation{store.ReadCommitted, store.RepeatableRead, store.Serializable},
		OneLevel:   true,
	}
}

// poolOf returns a pool on a new, migrated database.
func poolOf(tb testing.TB) *pgxpool.Pool {
	tb.Helper()
	cfg, err := pgxpool.ParseConfig(testenv.NewDatabase(tb))
	must(tb, err)
	cfg.MaxConns = 16
	p, err := pgxpool.NewWithConfig(context.Background(), cfg)
	must(tb, err)
	tb.Cleanup(p.Close)
	must(tb, pgxstore.Migrate(context.Background(), p, operate.Migrations, attemptlog.Migrations))
	return p
}

func count(tb testing.TB, p *pgxpool.Pool, query string, args ...any) (n int) {
	tb.Helper()
	must(tb, p.QueryRow(context.Background(), query, args...).Scan(&n))
	return n
}

const insertEffect = "insert into effect (key) values ($1)"

// onPgx is that of a pgxstore.
func onPgx() storetest.Harness[pgx.Tx] {
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
			p := poolOf(tb)
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
