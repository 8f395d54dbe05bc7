package pgxstore_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store/pgxstore"
)

// embrace makes the statement that follows in tx the victim of a deadlock with
// another session, which holds account 2 and wants account 1. It returns a function
// that ends that session's transaction.
func embrace(ctx context.Context, t *testing.T, pool *pgxpool.Pool, tx pgx.Tx) (release func()) {
	t.Helper()
	const take = "update account set balance = balance + 1 where id = $1"
	if _, err := tx.Exec(ctx, take, 1); err != nil {
		t.Error(err)
	}
	other, err := pool.Begin(ctx)
	if err != nil {
		t.Error(err)
	}
	if _, err := other.Exec(ctx, "set local deadlock_timeout = '1min'"); err != nil { // it is ours that finds out
		t.Error(err)
	}
	if _, err := other.Exec(ctx, take, 2); err != nil {
		t.Error(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = other.Exec(ctx, take, 1) // waits for us
		_ = other.Rollback(ctx)
	}()
	waiting(t, pool, 1) // ours looks for a deadlock only once, a second after it has begun to wait
	return func() { <-done }
}

// TestADeadlockSwallowedOrReturned: swallowed, nothing commits; returned, the handler runs again.
func TestADeadlockSwallowedOrReturned(t *testing.T) {
	t.Parallel()
	pool := openPool(t)
	e := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{})
	for _, swallow := range []bool{true, false} {
		ctx := context.Background()
		runs, op := 0, once.Operation{Scope: "deadlock", Key: map[bool]string{true: "swallowed", false: "returned"}[swallow]}
		var release func()
		_, err := once.Do(ctx, e, op, func(ctx context.Context, tx pgx.Tx) (charge, error) {
			if runs++; runs == 1 {
				release = embrace(ctx, t, pool, tx)
				if _, err := tx.Exec(ctx, "update account set balance = balance + 1 where id = 2"); err == nil {
					t.Error("there was no deadlock")
				} else if !swallow {
					return charge{}, err
				}
				return charge{op.Key}, nil
			}
			return insertCharge(op.Key)(ctx, tx)
		})
		release()
		want := 1
		if swallow {
			want = 0
			if once.CodeOf(err) != once.CodeAborted || once.EffectOf(err) != once.EffectNotApplied {
				t.Error("swallowed:", err)
			}
		} else if err != nil || runs != 2 {
			t.Errorf("returned: %v after %d runs", err, runs)
		}
		if n := count(t, pool, "select count(*) from once_operation where key = $1", op.Key); n != want {
			t.Errorf("%s: %d records, want %d", op.Key, n, want)
		}
		if n := count(t, pool, "select count(*) from charge where id = $1", op.Key); n != want {
			t.Errorf("%s: %d effects, want %d", op.Key, n, want)
		}
	}
}
