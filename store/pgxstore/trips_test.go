package pgxstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/pgxstore"
	"github.com/oncelib/once/store/upkeep"
)

// TestNoRoundTripMoreThanBare counts on the wire, with a tracer and without.
func TestNoRoundTripMoreThanBare(t *testing.T) {
	for _, mode := range []string{"prepared", "traced"} {
		t.Run(mode, func(t *testing.T) { noRoundTripMoreThanBare(t, modes[mode]) })
	}
}

func noRoundTripMoreThanBare(t *testing.T, configure func(*pgxpool.Config)) {
	t.Parallel()
	ctx := context.Background()
	var wire faultnet.Wire
	pool := openPool(t, configure, func(c *pgxpool.Config) {
		c.MaxConns = 1
		c.ConnConfig.DialFunc = wire.DialContext
	})
	s := pgxstore.New(pool, pgxstore.Config{})
	writer, _ := store.As[upkeep.Writer[pgx.Tx]](s)
	e := once.New(s, once.Config{})
	n := 0
	op := func() once.Operation {
		n++
		return once.Operation{Scope: "trips", Key: fmt.Sprint(n)}
	}
	do := func(op once.Operation) error {
		_, err := once.Do(ctx, e, op, insertCharge(op.Key))
		return err
	}
	same := op()
	if err := do(same); err != nil {
		t.Fatal(err)
	}
	serializable := func(op once.Operation) once.Operation {
		op.Isolation = store.Serializable
		return op
	}
	for _, c := range []struct {
		name string
		want int64
		run  func() error
	}{
		{"bare transaction", 4, func() error {
			return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { _, err := insertCharge(op().Key)(ctx, tx); return err })
		}},
		{"Do, executed", 4, func() error { return do(op()) }},
		{"Do, executed, first attempt", 3, func() error { o := op(); o.Attempt.Number = 1; return do(o) }},
		{"Do, executed, optimistic", 3, func() error { o := op(); o.Optimistic = true; return do(o) }},
		{"Do, optimistic, replayed in another process", 4, func() error {
			o := same
			o.Optimistic = true
			_, err := once.Do(ctx, once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{}), o, insertCharge(same.Key))
			return err
		}},
		{"Do, optimistic at SERIALIZABLE, executed", 4, func() error { o := serializable(op()); o.Optimistic = true; return do(o) }},
		{"Do, replayed", 1, func() error { return do(same) }},
		{"Do at SERIALIZABLE, executed", 4, func() error { return do(serializable(op())) }},
		{"Do at SERIALIZABLE, replayed in another process", 2, func() error {
			_, err := once.Do(ctx, once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{}), serializable(same), insertCharge(same.Key))
			return err
		}},
		{"a transaction that claims nothing, and is begun by its first statement", 3, func() error { return claimless(ctx, s, op().Key) }},
		{"Write in a transaction of the caller, which reads once", 4, func() error {
			return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				o := op()
				_, err := writer.Write(ctx, tx, store.Change{
					ID: store.ID{Scope: o.Scope, Key: o.Key}, Next: store.Record{State: store.StateWaiting, Fence: 1, Nonce: []byte(o.Key)}, Writes: []store.Statement{{SQL: "insert into charge values ($1, 5)", Args: []any{o.Key}}},
				})
				return errors.Join(err, tx.QueryRow(ctx, "select 1").Scan(new(int)))
			})
		}},
		{"Do, final failure", 5, func() error {
			_, err := once.Do(ctx, e, op(), func(ctx context.Context, tx pgx.Tx) (charge, error) {
				c, err := insertCharge("declined")(ctx, tx)
				return c, errors.Join(err, &once.Failure{Code: "declined"})
			})
			if f := (*once.Failure)(nil); errors.As(err, &f) {
				return nil
			}
			return fmt.Errorf("no failure: %w", err)
		}},
	} {
		var got int64
		for range 3 { // the first times fill pgx's statement cache
			before := wire.Counts().RoundTrips
			if err := c.run(); err != nil {
				t.Fatal(c.name, err)
			}
			if _, err := pool.Exec(ctx, ""); err != nil { // waits until the connection is free again
				t.Fatal(err)
			}
			got = wire.Counts().RoundTrips - before - 1
		}
		if got != c.want {
			t.Errorf("%s: %d round trips, want %d", c.name, got, c.want)
		}
	}
}

// claimless runs a transaction that claims nothing.
func claimless(ctx context.Context, s *pgxstore.Store, key string) error {
	txn, _, err := s.Begin(ctx, store.BeginOptions{First: true})
	if err != nil {
		return err
	}
	if _, err := insertCharge(key)(ctx, txn.Tx()); err != nil {
		return errors.Join(err, txn.Rollback(ctx))
	}
	return txn.Commit(ctx, store.Change{ID: store.ID{Scope: "trips", Key: key}, Next: store.Record{State: store.StateRunning, Fence: 1, Nonce: []byte(key)}})
}
