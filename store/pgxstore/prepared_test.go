package pgxstore_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/store"
)

// TestBatchLeavesOtherQueriesAlone: after a migration a query of the same text, on the same
// connection, fails no more often than it does without batches.
func TestBatchLeavesOtherQueriesAlone(t *testing.T) {
	t.Parallel()
	pool := openPool(t, func(c *pgxpool.Config) { c.MaxConns = 1 })
	const text = "update account set balance = balance - 1 where id = 7 returning *"
	batch := func() error {
		_, err := once.DoBatch(t.Context(), engineOn(pool), once.Operation{Scope: "p", Key: once.NewKey()}, func(b *once.Batch) (int, error) {
			b.Exec(text)
			return 1, nil
		})
		return err
	}
	query := func() error {
		rows, err := pool.Query(t.Context(), text)
		if err != nil {
			return err
		}
		rows.Close()
		return rows.Err()
	}
	for _, run := range []func() error{batch, query} {
		if err := run(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := pool.Exec(t.Context(), "alter table account add column note text"); err != nil {
		t.Fatal(err)
	}
	_ = query() // makes pgx prepare it anew
	for _, run := range []func() error{query, batch, query} {
		if err := run(); err != nil {
			t.Error(err)
		}
	}
}

// TestHotStatementsStayPrepared: a batch whose statements are in use is one round trip,
// however many texts the connection has seen.
func TestHotStatementsStayPrepared(t *testing.T) {
	t.Parallel()
	var wire faultnet.Wire
	pool := openPool(t, func(c *pgxpool.Config) {
		c.MaxConns = 1
		c.ConnConfig.DialFunc = wire.DialContext
	})
	e := engineOn(pool)
	const hot = "update account set balance = balance - 1 where id = 9"
	run := func(texts ...string) int64 {
		t.Helper()
		before := wire.Counts().RoundTrips
		_, err := once.DoBatch(t.Context(), e, once.Operation{Scope: "p", Key: once.NewKey()}, func(b *once.Batch) (int, error) {
			for _, text := range texts {
				b.ExecRows(1, text)
			}
			return 1, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return wire.Counts().RoundTrips - before
	}
	n := 0
	cold := func() string {
		n++
		return fmt.Sprintf("insert into charge values ('cold%d', 1)", n)
	}
	run(hot)
	for range 300 {
		run(cold())
		if n%100 == 0 {
			if trips := run(hot); trips != 1 {
				t.Errorf("in use, after %d texts: %d round trips", n, trips)
			}
		}
	}
	many := make([]string, 300) // more than are kept, at once
	for i := range many {
		many[i] = cold()
	}
	run(many...)
	for _, text := range []string{hot, "update account set balance = balance - 1 where id = 10"} {
		run(text)
		if _, err := once.DoBatch(t.Context(), e, once.Operation{Scope: "p", Key: once.NewKey()}, func(b *once.Batch) (int, error) {
			b.ExecRows(1, text)
			b.ExecRows(1, "update account set balance = 0 where id = -1") // a pipeline that fails
			return 1, nil
		}); !errors.Is(err, store.ErrRows) {
			t.Fatal(err)
		}
		run() // what pgx has dropped it does so with the next one
		if trips := run(text); trips != 1 {
			t.Errorf("in use lately, %q: %d round trips", text, trips)
		}
	}
	if kept := count(t, pool, "select count(*) from pg_prepared_statements where name like 'once_batch_%'"); kept != 256 {
		t.Errorf("%d statements stay prepared, want 256", kept)
	}
	if got := count(t, pool, "select count(*) from charge"); got != n {
		t.Errorf("%d effects, want %d", got, n)
	}
}

// TestABatchAfterAMigration fails no more often than with pgx alone, which forgets what has
// failed.
func TestABatchAfterAMigration(t *testing.T) {
	t.Parallel()
	pool := openPool(t, func(c *pgxpool.Config) { c.MaxConns = 1 })
	e := engineOn(pool)
	for _, change := range []string{"alter table account add column note text", "alter table account alter column note type int using 0"} {
		if _, err := pool.Exec(t.Context(), change); err != nil {
			t.Fatal(err)
		}
		failed := 0
		for range 3 {
			_, err := once.DoBatch(t.Context(), e, once.Operation{Scope: "migrated", Key: once.NewKey()}, func(b *once.Batch) (int, error) {
				b.Exec("update account set note = $1 where id = 7", "1")
				return 1, nil
			})
			if err != nil {
				failed++
			}
		}
		if failed > 1 {
			t.Errorf("%q: failed %d times", change, failed)
		}
	}
}
