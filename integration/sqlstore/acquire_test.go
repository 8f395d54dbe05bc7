package sqlstore

import (
	"context"
	"database/sql"
	"runtime"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store/sqlstore"
)

type observer func(once.Event)

func (o observer) Observe(_ context.Context, e once.Event) { o(e) }

// TestAcquireIsToldApart: while the only connection of the pool is held, every kind of call waits for
// it, and the event tells that as Acquire and as nothing else.
func TestAcquireIsToldApart(t *testing.T) {
	testenv.Both(t)
	on(t, func(t *testing.T, db *sql.DB, s *sqlstore.Store) {
		const held = 20 * time.Millisecond
		db.SetMaxOpenConns(1)
		var last once.Event
		e := once.New(s, once.Config{Observer: observer(func(e once.Event) { last = e })})
		do := func(op once.Operation) error {
			_, err := once.Do(t.Context(), e, op, func(ctx context.Context, tx *sql.Tx) (int, error) {
				_, err := tx.ExecContext(ctx, "select 1")
				return 1, err
			})
			return err
		}
		known := once.Operation{Scope: "acquire", Key: once.NewKey()}
		if err := do(known); err != nil {
			t.Fatal(err)
		}
		known.Attempt.Number = 2
		for name, call := range map[string]func() error{
			"an operation": func() error { return do(once.Operation{Scope: "acquire", Key: once.NewKey()}) },
			"a first attempt": func() error {
				return do(once.Operation{Scope: "acquire", Key: once.NewKey(), Attempt: once.Attempt{Number: 1}})
			},
			"a replay": func() error { return do(known) },
			"a batch": func() error {
				_, err := once.DoBatch(t.Context(), e, once.Operation{Scope: "acquire", Key: once.NewKey()}, func(b *once.Batch) (int, error) {
					b.Exec("delete from charge")
					return 1, nil
				})
				return err
			},
		} {
			busy, err := db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			before, end := db.Stats().WaitCount, make(chan error, 1)
			go func() { end <- call() }()
			for db.Stats().WaitCount == before && len(end) == 0 {
				runtime.Gosched()
			}
			time.AfterFunc(held, func() { _ = busy.Close() })
			if err := <-end; err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if sum := last.Acquire + last.LockWait + last.LookUp + last.Handler + last.Commit; last.Acquire < held || sum > last.Total {
				t.Errorf("%s: %+v", name, last)
			}
		}
	})
}
