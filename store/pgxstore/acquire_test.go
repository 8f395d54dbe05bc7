package pgxstore_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store/pgxstore"
)

// acquiring calls begun when a call begins to ask the pool for a connection.
type acquiring struct {
	spans

	begun atomic.Pointer[func()]
}

func (a *acquiring) TraceAcquireStart(ctx context.Context, _ *pgxpool.Pool, _ pgxpool.TraceAcquireStartData) context.Context {
	if begun := a.begun.Load(); begun != nil {
		(*begun)()
	}
	return ctx
}

func (a *acquiring) TraceAcquireEnd(context.Context, *pgxpool.Pool, pgxpool.TraceAcquireEndData) {}

// TestAcquireIsToldApart: while the only connection of the pool is held, every kind of call waits for
// it, and the event tells that as Acquire and as nothing else.
func TestAcquireIsToldApart(t *testing.T) {
	t.Parallel()
	const held = 30 * time.Millisecond
	tracer := new(acquiring)
	pool := openPool(t, func(c *pgxpool.Config) { c.MaxConns, c.ConnConfig.Tracer = 1, tracer })
	var last once.Event
	e := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{Observer: observer(func(e once.Event) { last = e })})
	write := func(ctx context.Context, tx pgx.Tx) (int, error) {
		_, err := tx.Exec(ctx, "select $1::int", 1)
		return 1, err
	}
	do := func(op once.Operation) error {
		_, err := once.Do(t.Context(), e, op, write)
		return err
	}
	known := once.Operation{Scope: "s", Key: once.NewKey()}
	if err := do(known); err != nil {
		t.Fatal(err)
	}
	known.Attempt.Number = 2
	for name, call := range map[string]func() error{
		"an operation": func() error { return do(once.Operation{Scope: "s", Key: once.NewKey()}) },
		"a first attempt": func() error {
			return do(once.Operation{Scope: "s", Key: once.NewKey(), Attempt: once.Attempt{Number: 1}})
		},
		"a replay": func() error { return do(known) },
		"a batch": func() error {
			_, err := once.DoBatch(t.Context(), e, once.Operation{Scope: "s", Key: once.NewKey()}, func(b *once.Batch) (int, error) {
				b.Exec("select $1::int", 1)
				return 1, nil
			})
			return err
		},
	} {
		busy, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		release := sync.OnceFunc(func() { time.AfterFunc(held, busy.Release) })
		tracer.begun.Store(&release)
		if err := call(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		tracer.begun.Store(nil)
		release() // if the call has failed before
		if sum := last.Acquire + last.LockWait + last.LookUp + last.Handler + last.Commit; last.Acquire < held || sum > last.Total {
			t.Errorf("%s: %+v", name, last)
		}
	}
}
