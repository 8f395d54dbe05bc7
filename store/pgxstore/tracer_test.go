package pgxstore_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store/pgxstore"
)

// spans counts what a tracer would record.
type spans struct{ all, failed atomic.Int64 }

func (s *spans) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

func (s *spans) TraceQueryEnd(_ context.Context, _ *pgx.Conn, d pgx.TraceQueryEndData) {
	s.count(d.Err)
}

func (s *spans) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (s *spans) TraceBatchQuery(_ context.Context, _ *pgx.Conn, d pgx.TraceBatchQueryData) {
	s.count(d.Err)
}

func (s *spans) TraceBatchEnd(_ context.Context, _ *pgx.Conn, d pgx.TraceBatchEndData) {
	s.count(d.Err)
}

func (s *spans) count(err error) {
	s.all.Add(1)
	if err != nil {
		s.failed.Add(1)
	}
}

// TestNoErrorsWhereNothingFails: a user who traces pgx would see an error in every
// operation, and learn to overlook them.
func TestNoErrorsWhereNothingFails(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	seen := new(spans)
	pool := openPool(t, func(c *pgxpool.Config) { c.ConnConfig.Tracer = seen })
	e := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{Synced: true})
	plain := func(ctx context.Context, tx pgx.Tx) (int, error) {
		_, err := tx.Exec(ctx, "select 1")
		return 1, err
	}
	for name, run := range map[string]func(op once.Operation) error{
		"executed and replayed": func(op once.Operation) error {
			_, err := once.Do(ctx, e, op, plain)
			_, again := once.Do(ctx, e, op, plain)
			return errors.Join(err, again)
		},
		"first attempt": func(op once.Operation) error {
			op.Attempt.Number = 1
			_, err := once.Do(ctx, e, op, func(ctx context.Context, tx pgx.Tx) (int, error) {
				_, err := tx.Exec(ctx, "select $1::int", 1)
				return 1, err
			})
			return err
		},
		"batch": func(op once.Operation) error {
			_, err := once.DoBatch(ctx, e, op, declare(op.Key))
			return err
		},
		"rolled back": func(op once.Operation) error {
			_, err := once.Do(ctx, e, op, func(ctx context.Context, tx pgx.Tx) (int, error) {
				_, err := plain(ctx, tx)
				return 0, errors.Join(err, errors.New("no"))
			})
			if once.CodeOf(err) == once.CodeFailed {
				return nil
			}
			return err
		},
		"declined": func(op once.Operation) error {
			_, err := once.Do(ctx, e, op, func(context.Context, pgx.Tx) (int, error) { return 0, &once.Failure{Code: "no"} })
			if errors.As(err, new(*once.Failure)) {
				return nil
			}
			return err
		},
		"joined and replayed": func(op once.Operation) error {
			return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				_, err := once.Join(ctx, e, tx, op, plain)
				_, again := once.Join(ctx, e, tx, op, plain)
				return errors.Join(err, again)
			})
		},
	} {
		before := seen.all.Load()
		if err := run(once.Operation{Scope: "traced", Key: name}); err != nil {
			t.Error(name, err)
		}
		if n := seen.failed.Swap(0); n > 0 || seen.all.Load() == before {
			t.Errorf("%s: %d of %d spans failed", name, n, seen.all.Load()-before)
		}
	}
}

// TestLargeObjectsEndWithTheHandler: pgx's large objects know pgx's transaction only,
// and must not get at the connection's next user.
func TestLargeObjectsEndWithTheHandler(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	e := once.New(pgxstore.New(openPool(t), pgxstore.Config{}), once.Config{})
	for name, end := range map[string]func(context.Context, pgx.Tx) error{
		"committed":   func(context.Context, pgx.Tx) error { return nil },
		"rolled back": func(context.Context, pgx.Tx) error { return errors.New("no") },
		"refused at COMMIT": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "insert into child values (1, -1)")
			return err
		},
	} {
		var escaped pgx.LargeObjects
		_, err := once.Do(ctx, e, once.Operation{Scope: "large", Key: name}, func(ctx context.Context, tx pgx.Tx) (int, error) {
			escaped = tx.LargeObjects()
			_, err := escaped.Create(ctx, 0)
			return 1, errors.Join(err, end(ctx, tx))
		})
		if (err == nil) != (name == "committed") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := escaped.Create(ctx, 0); !errors.Is(err, pgx.ErrTxClosed) {
			t.Errorf("%s: a large object after the end of its transaction: %v", name, err)
		}
	}
}
