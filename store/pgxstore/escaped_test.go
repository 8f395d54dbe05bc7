package pgxstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store/pgxstore"
)

// TestEscapedSavepoint: what a handler has left behind, in a goroutine that it did not wait
// for, undoes nothing of the operation that has the connection now.
func TestEscapedSavepoint(t *testing.T) {
	t.Parallel()
	pool := openPool(t, func(c *pgxpool.Config) { c.MaxConns = 1 })
	e := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{})
	var root, savepoint, inner pgx.Tx
	_, err := once.Do(t.Context(), e, once.Operation{Scope: "s", Key: "left"}, func(ctx context.Context, tx pgx.Tx) (int, error) {
		root = tx
		var err error
		if savepoint, err = tx.Begin(ctx); err != nil {
			return 0, err
		}
		if inner, err = savepoint.Begin(ctx); err != nil {
			return 0, err
		}
		return 0, errors.New("does not wait")
	})
	if once.CodeOf(err) != once.CodeFailed {
		t.Fatal(err)
	}
	_, err = once.Do(t.Context(), e, once.Operation{Scope: "s", Key: "b"}, func(ctx context.Context, tx pgx.Tx) (charge, error) {
		sp, err := tx.Begin(ctx)
		if err != nil {
			return charge{}, err
		}
		c, err := insertCharge("b")(ctx, sp)
		for _, old := range []pgx.Tx{inner, savepoint, root} {
			_, exec := old.Exec(ctx, "select 1")
			lo := old.LargeObjects()
			_, large := lo.Create(ctx, 0)
			for _, e := range []error{old.Rollback(ctx), old.Commit(ctx), exec, large} {
				if !errors.Is(e, pgx.ErrTxClosed) {
					t.Error("of the operation before:", e)
				}
			}
		}
		return c, errors.Join(err, sp.Commit(ctx))
	})
	if err != nil {
		t.Error(err)
	}
	if n := count(t, pool, "select count(*) from charge where id = 'b'"); n != 1 {
		t.Errorf("%d effects", n)
	}
}

// TestEscapedFromAJoin is the same inside the caller's own transaction.
func TestEscapedFromAJoin(t *testing.T) {
	t.Parallel()
	pool := openPool(t)
	e := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{})
	err := pgx.BeginFunc(t.Context(), pool, func(caller pgx.Tx) error {
		var left pgx.Tx
		over, ended := make(chan struct{}), make(chan error, 1)
		_, err := once.Join(t.Context(), e, caller, once.Operation{Scope: "s", Key: "outer"}, func(ctx context.Context, tx pgx.Tx) (int, error) {
			inside := make(chan struct{})
			go func() {
				_, err := once.Join(context.WithoutCancel(ctx), e, tx, once.Operation{Scope: "s", Key: "inner"}, func(ctx context.Context, tx pgx.Tx) (int, error) {
					close(inside)
					<-over
					if _, err := tx.Exec(ctx, "select 1"); !errors.Is(err, pgx.ErrTxClosed) {
						t.Error("of a join that has ended around it:", err)
					}
					return 0, errors.New("too late")
				})
				ended <- err
			}()
			select {
			case <-inside:
			case err := <-ended:
				return 0, err
			}
			var err error
			left, err = tx.Begin(ctx)
			return 0, errors.Join(err, errors.New("does not wait"))
		})
		if once.CodeOf(err) != once.CodeFailed {
			t.Error(err)
		}
		_, err = once.Join(t.Context(), e, caller, once.Operation{Scope: "s", Key: "next"}, func(ctx context.Context, tx pgx.Tx) (charge, error) {
			sp, err := tx.Begin(ctx)
			if err != nil {
				return charge{}, err
			}
			c, err := insertCharge("next")(ctx, sp)
			if e := left.Rollback(ctx); !errors.Is(e, pgx.ErrTxClosed) {
				t.Error("of the join before:", e)
			}
			close(over)
			if e := <-ended; once.EffectOf(e) != once.EffectInDoubt {
				t.Error("inside of the join before:", e)
			}
			return c, errors.Join(err, sp.Commit(ctx))
		})
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if n := count(t, pool, "select count(*) from charge where id = 'next'"); n != 1 {
		t.Errorf("%d effects", n)
	}
}

// TestSavepointNamesDiffer between a transaction of a connection and the next.
func TestSavepointNamesDiffer(t *testing.T) {
	t.Parallel()
	names := named{}
	pool := openPool(t, func(c *pgxpool.Config) {
		c.MaxConns = 1
		c.ConnConfig.Tracer = names
	})
	e := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{})
	for _, key := range []string{"1", "2"} {
		_, err := once.Do(t.Context(), e, once.Operation{Scope: "s", Key: key}, func(ctx context.Context, tx pgx.Tx) (int, error) {
			return 0, errors.Join(pgx.BeginFunc(ctx, tx, func(pgx.Tx) error { return nil }), pgx.BeginFunc(ctx, tx, func(pgx.Tx) error { return nil }))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(names) != 4 {
		t.Errorf("the names of 4 savepoints: %v", names)
	}
}

// named counts savepoints by name.
type named map[string]int

func (n named) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if strings.HasPrefix(data.SQL, "savepoint ") {
		n[data.SQL]++
	}
	return ctx
}

func (named) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
