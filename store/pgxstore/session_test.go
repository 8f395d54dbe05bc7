package pgxstore_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store/pgxstore"
)

// TestDroppedStatements has the prepared statements of a connection dropped behind
// pgx's back: the operation runs again, on another connection.
func TestDroppedStatements(t *testing.T) {
	ctx := context.Background()
	pool := openPool(t, func(c *pgxpool.Config) { c.MaxConns = 1 })
	e := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{})
	do := func(key string, drop bool) error {
		_, err := once.Do(ctx, e, once.Operation{Scope: "drop", Key: key}, func(ctx context.Context, tx pgx.Tx) (charge, error) {
			c, err := insertCharge(key)(ctx, tx)
			if drop && err == nil {
				_, err = tx.Exec(ctx, "deallocate all")
			}
			return c, err
		})
		return err
	}
	if err := do("1", false); err != nil { // prepares them
		t.Fatal(err)
	}
	if err := do("2", true); err != nil {
		t.Fatalf("without its statements: %v", err)
	}
	if err := do("3", false); err != nil {
		t.Fatalf("afterwards: %v", err)
	}
	if n := count(t, pool, "select count(*) from charge"); n != 3 {
		t.Errorf("%d charges", n)
	}
}

// TestLargeObjectsEndWithTheTransaction also shows that they work.
func TestLargeObjectsEndWithTheTransaction(t *testing.T) {
	ctx := context.Background()
	pool := openPool(t)
	e := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{})
	var kept pgx.LargeObjects
	r, err := once.Do(ctx, e, once.Operation{Scope: "lo", Key: "1"}, func(ctx context.Context, tx pgx.Tx) (oid uint32, err error) {
		kept = tx.LargeObjects()
		if oid, err = kept.Create(ctx, 0); err != nil {
			return 0, err
		}
		lo, err := kept.Open(ctx, oid, pgx.LargeObjectModeWrite)
		if err != nil {
			return 0, err
		}
		_, err = io.WriteString(lo, "invoice")
		return oid, err
	})
	if err != nil {
		t.Fatal(err)
	}
	var text string
	if err := pool.QueryRow(ctx, "select convert_from(lo_get($1), 'UTF8')", r.Value).Scan(&text); err != nil || text != "invoice" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := kept.Create(ctx, 0); !errors.Is(err, pgx.ErrTxClosed) {
		t.Errorf("after the end: %v", err)
	}
}

// TestBatchThatBegins would commit half of the operation if it were allowed to.
func TestBatchThatBegins(t *testing.T) {
	ctx := context.Background()
	pool := openPool(t)
	e := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{})
	_, err := once.Do(ctx, e, once.Operation{Scope: "batch", Key: "1"}, func(ctx context.Context, tx pgx.Tx) (charge, error) {
		c, err := insertCharge("1")(ctx, tx)
		if err != nil {
			return c, err
		}
		var b pgx.Batch
		b.BeginTx(pgx.TxOptions{})
		br := tx.SendBatch(ctx, &b)
		if br.Tx() != nil {
			t.Error("a second transaction was handed out")
		}
		_ = br.Close() // swallowed
		return c, nil
	})
	if once.EffectOf(err) != once.EffectNotApplied {
		t.Errorf("got %v", err)
	}
	if n := count(t, pool, "select count(*) from charge"); n != 0 {
		t.Errorf("%d charges", n)
	}
}
