package pgxstore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/pgxstore"
	"github.com/oncelib/once/store"
)

// TestAFailedJoinLeavesTheCallerUsable: a claim that fails is undone, too. (One that
// cannot even be prepared has no savepoint to go back to yet.)
func TestAFailedJoinLeavesTheCallerUsable(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool := openPool(t)
	e := once.New(pgxstore.New(pool), once.Config{})
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := once.Join(ctx, e, tx, once.Operation{Scope: "join", Key: "0"}, insertCharge("before")); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "alter table once_operation rename to hidden"); err != nil {
			return err
		}
		_, err := once.Join(ctx, e, tx, once.Operation{Scope: "join", Key: "1"}, insertCharge("1"))
		if once.CodeOf(err) != once.CodeUnavailable || once.EffectOf(err) != once.NotApplied {
			t.Error("a join without the table:", err)
		}
		if _, err := tx.Exec(ctx, "alter table hidden rename to once_operation"); err != nil {
			return err
		}
		_, err = once.Join(ctx, e, tx, once.Operation{Scope: "join", Key: "1"}, insertCharge("after"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := count(t, pool, "select count(*) from charge where id in ('before', 'after')"); n != 2 {
		t.Errorf("%d effects, want 2", n)
	}
}

// TestAppendedWritesEndWithTheirJoin: a write that would have travelled with the
// record of a join is undone with the handler that appended it.
func TestAppendedWritesEndWithTheirJoin(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool := openPool(t)
	e := once.New(pgxstore.New(pool), once.Config{})
	for key, end := range map[string]error{
		"kept":     nil,
		"declined": &once.Failure{Code: "declined"},
		"failed":   errors.New("failed"),
	} {
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			_, err := once.Join(ctx, e, tx, once.Operation{Scope: "append", Key: key}, func(_ context.Context, tx pgx.Tx) (int, error) {
				tx.(store.Appender).Append(store.Statement{SQL: "insert into charge values ($1, 1)", Args: []any{key}, Rows: 1})
				return 1, end
			})
			if (err == nil) != (end == nil) {
				t.Errorf("%s: %v", key, err)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		want := 0
		if end == nil {
			want = 1
		}
		if n := count(t, pool, "select count(*) from charge where id = $1", key); n != want {
			t.Errorf("%s: %d appended writes, want %d", key, n, want)
		}
	}
}
