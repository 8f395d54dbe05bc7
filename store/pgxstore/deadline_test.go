package pgxstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store/pgxstore"
)

// TestOwnDeadline: when a deadline that the handler has set itself is over, the handler has
// failed. The store was reached, and is not said to be unavailable.
func TestOwnDeadline(t *testing.T) {
	pool := openPool(t)
	e := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{Observer: once.Discard})
	// Longer than the deadline; it ends only a hang.
	const sleep = "insert into charge select $1, 1 from pg_sleep(60)"
	for name, h := range map[string]func(own context.Context, tx pgx.Tx) error{
		"in something else": func(own context.Context, _ pgx.Tx) error { <-own.Done(); return own.Err() },
		"before a statement": func(own context.Context, tx pgx.Tx) error {
			<-own.Done()
			_, err := tx.Exec(own, sleep, "c")
			return err
		},
		"in a statement": func(own context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(own, sleep, "c")
			return err
		},
	} {
		for _, first := range []bool{false, true} {
			ran := 0
			_, err := once.Do(t.Context(), e, once.Operation{Scope: "s", Key: once.NewKey(), Attempt: attempt(first)}, func(ctx context.Context, tx pgx.Tx) (int, error) {
				ran++
				own, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
				defer cancel()
				return 0, h(own, tx)
			})
			if once.CodeOf(err) != once.CodeFailed || once.EffectOf(err) != once.EffectNotApplied || !errors.Is(err, context.DeadlineExceeded) || ran != 1 {
				t.Errorf("%s, first %t: %v, ran %d times", name, first, err, ran)
			}
		}
	}
	if n := count(t, pool, "select count(*) from charge"); n != 0 {
		t.Errorf("%d charges", n)
	}

	// The caller's own deadline is another matter: it has not been answered in time.
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := once.Do(ctx, e, once.Operation{Scope: "s", Key: "caller", Attempt: once.Attempt{Number: 1}}, func(ctx context.Context, tx pgx.Tx) (int, error) {
		_, err := tx.Exec(ctx, sleep, "c")
		return 0, err
	})
	if once.CodeOf(err) != once.CodeUnavailable {
		t.Errorf("the caller's deadline: %v", err)
	}
}
