package pgxstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store/pgxstore"
)

// TestATracerThatPanics, wherever it does, costs a pool none of its connections.
// (Queries of the pool itself, as in Read, are not looked at: pgxpool loses one there.)
func TestATracerThatPanics(t *testing.T) {
	t.Parallel()
	tracer := new(fragile)
	pool := openPool(t, func(c *pgxpool.Config) {
		c.MaxConns = 1
		c.ConnConfig.Tracer = tracer
	})
	e := engineOn(pool)
	declined := func(context.Context, pgx.Tx) (charge, error) { return charge{}, &once.Failure{Code: "declined"} }
	for name, run := range map[string]func(ctx context.Context, op once.Operation) error{
		"done": func(ctx context.Context, op once.Operation) error {
			_, err := once.Do(ctx, e, op, insertCharge(op.Key))
			return err
		},
		"first attempt": func(ctx context.Context, op once.Operation) error {
			op.Attempt.Number = 1
			_, err := once.Do(ctx, e, op, insertCharge(op.Key))
			return err
		},
		"first attempt, new statement": func(ctx context.Context, op once.Operation) error {
			op.Attempt.Number = 1
			_, err := once.Do(ctx, e, op, func(ctx context.Context, tx pgx.Tx) (charge, error) {
				_, err := tx.Exec(ctx, "insert into charge values ($1, 5) -- "+op.Key, op.Key)
				return charge{}, err
			})
			return err
		},
		"declined": func(ctx context.Context, op once.Operation) error {
			_, err := once.Do(ctx, e, op, declined)
			return err
		},
		"batch": func(ctx context.Context, op once.Operation) error {
			_, err := once.DoBatch(ctx, e, op, declare(op.Key))
			return err
		},
	} {
		panicked := true
		n := 0
		for ; panicked && n < 100; n++ {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			op := once.Operation{Scope: name, Key: once.NewKey()}
			func() {
				defer func() { panicked = recover() != nil }()
				tracer.in = n + 1
				_ = run(ctx, op)
			}()
			tracer.in = 0
			if err := pool.Ping(ctx); err != nil {
				t.Fatalf("%s: after a panic at call %d of the tracer: %v", name, n+1, err)
			}
			cancel()
		}
		if panicked || n < 4 {
			t.Errorf("%s: %d points, panicked at the last: %v", name, n, panicked)
		}
	}
}

// fragile is a tracer that panics when it is called for the in-th time.
type fragile struct{ in int }

func (f *fragile) call() {
	f.in--
	if f.in == 0 {
		panic("tracer")
	}
}

func (f *fragile) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	f.call()
	return ctx
}

func (f *fragile) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) { f.call() }

func (f *fragile) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	f.call()
	return ctx
}

func (f *fragile) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) { f.call() }

func (f *fragile) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) { f.call() }

func (f *fragile) TracePrepareStart(ctx context.Context, _ *pgx.Conn, _ pgx.TracePrepareStartData) context.Context {
	f.call()
	return ctx
}

func (f *fragile) TracePrepareEnd(context.Context, *pgx.Conn, pgx.TracePrepareEndData) { f.call() }

// TestUnknownIsolation is refused, with the connections left as they are.
func TestUnknownIsolation(t *testing.T) {
	t.Parallel()
	pool := openPool(t, func(c *pgxpool.Config) { c.MaxConns = 1 })
	e := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{})
	op := once.Operation{Scope: "t", Key: "k", Isolation: 77}
	_, err := once.Do(t.Context(), e, op, insertCharge("k"))
	_, batch := once.DoBatch(t.Context(), e, op, declare("k"))
	for _, err := range []error{err, batch} {
		if once.CodeOf(err) != once.CodeInvalid || once.EffectOf(err) != once.EffectNotApplied {
			t.Error(err)
		}
	}
	if n := count(t, pool, "select count(*) from charge"); n != 0 {
		t.Errorf("%d effects", n)
	}
}
