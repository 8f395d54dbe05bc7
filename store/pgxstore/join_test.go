package pgxstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/pgxstore"
)

// TestAFailedJoinLeavesTheCallerUsable: a claim that fails is undone, too. (One that
// cannot even be prepared has no savepoint to go back to yet.)
func TestAFailedJoinLeavesTheCallerUsable(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool := openPool(t)
	e := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{})
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := once.Join(ctx, e, tx, once.Operation{Scope: "join", Key: "0"}, insertCharge("before")); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "alter table once_operation rename to hidden"); err != nil {
			return err
		}
		_, err := once.Join(ctx, e, tx, once.Operation{Scope: "join", Key: "1"}, insertCharge("1"))
		if once.CodeOf(err) != once.CodeUnavailable || once.EffectOf(err) != once.EffectNotApplied {
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
	e := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{})
	for key, end := range map[string]error{
		"kept":     nil,
		"declined": &once.Failure{Code: "declined"},
		"failed":   errors.New("failed"),
	} {
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			_, err := once.Join(ctx, e, tx, once.Operation{Scope: "append", Key: key}, func(_ context.Context, tx pgx.Tx) (int, error) {
				appendTo(t, tx, store.Statement{SQL: "insert into charge values ($1, 1)", Args: []any{key}, Rows: 1})
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

// TestJoinTooLate: a join whose time is over before anything was sent is not applied, and
// leaves the caller's transaction as it was.
func TestJoinTooLate(t *testing.T) {
	t.Parallel()
	for name, mode := range modes {
		pool := openPool(t, mode)
		e := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{})
		over, cancel := context.WithCancel(t.Context())
		cancel()
		late := func(tx pgx.Tx, key string) {
			_, err := once.Join(over, e, tx, once.Operation{Scope: "join", Key: key}, insertCharge(key))
			if once.CodeOf(err) != once.CodeUnavailable || once.EffectOf(err) != once.EffectNotApplied {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			late(tx, "late")
			_, err := tx.Exec(t.Context(), "insert into charge values ('later', 1)")
			return err
		}); err != nil {
			t.Errorf("%s: a plain transaction: %v", name, err)
		}
		_, err := once.Do(t.Context(), e, once.Operation{Scope: "join", Key: "outer"}, func(ctx context.Context, tx pgx.Tx) (charge, error) {
			late(tx, "late")
			return insertCharge("outer")(ctx, tx)
		})
		if err != nil {
			t.Errorf("%s: an operation: %v", name, err)
		}
		if n := count(t, pool, "select count(*) from charge where id in ('later', 'outer')"); n != 2 {
			t.Errorf("%s: %d effects, want 2", name, n)
		}
	}
}

// TestJoinThatIsNotSent is over between the look at the context and the first statement.
func TestJoinThatIsNotSent(t *testing.T) {
	t.Parallel()
	pool := openPool(t)
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		if _, _, err := pgxstore.New(pool, pgxstore.Config{}).Join(t.Context(), unsent{tx}, store.BeginOptions{ID: store.ID{Scope: "join", Key: "k"}}); store.KindOf(err) != store.KindUnavailable {
			t.Error(err)
		}
		_, err := tx.Exec(t.Context(), "insert into charge values ('later', 1)")
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// unsent is a transaction whose batches find their context over.
type unsent struct{ pgx.Tx }

func (u unsent) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return u.Tx.SendBatch(ctx, b)
}

// TestManyJoins: each claim is a lock in a table that all sessions share. One transaction does
// not take more of it than its share, those that execute nothing take none, and what was
// joined before commits.
func TestManyJoins(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	ctx := t.Context()
	pool := openPool(t)
	e := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{})
	if _, err := once.Do(ctx, e, once.Operation{Scope: "many", Key: "first"}, insertCharge("first")); err != nil {
		t.Fatal(err) // which has probed the server, with a lock
	}
	const most, locks = 1000, "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()"
	join := func(tx pgx.Tx, key int, fail error) error {
		_, err := once.Join(ctx, e, tx, once.Operation{Scope: "many", Key: fmt.Sprint(key)}, func(context.Context, pgx.Tx) (int, error) { return 1, fail })
		return err
	}
	held := func(tx pgx.Tx) (n int) {
		if err := tx.QueryRow(ctx, locks).Scan(&n); err != nil {
			t.Error(err)
		}
		return n
	}
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		for i := range most {
			if err := join(tx, -1, errors.New("failed")); once.CodeOf(err) != once.CodeFailed {
				return err
			}
			if err := join(tx, i, nil); err != nil {
				return err
			}
		}
		err := join(tx, most, nil)
		if once.CodeOf(err) != once.CodeMisuse || once.EffectOf(err) != once.EffectNotApplied || !strings.Contains(err.Error(), "Try: commit") {
			t.Errorf("one more: %v", err)
		}
		if n := held(tx); n != most {
			t.Errorf("%d locks, want %d", n, most)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		for i := range most + 1 { // all but the last are replays
			if err := join(tx, i, nil); err != nil {
				return err
			}
		}
		if n := held(tx); n != 1 {
			t.Errorf("%d locks after replays, want 1", n)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := count(t, pool, "select count(*) from once_operation"); n != most+2 {
		t.Errorf("%d operations", n)
	}
}
