package pgxstore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store/pgxstore"
)

// TestSavepointsNest: each undoes what has happened since it was set, and no more.
func TestSavepointsNest(t *testing.T) {
	t.Parallel()
	pool := openPool(t)
	e := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{})
	for name, c := range map[string]struct {
		inner, outer bool // is committed
		want         string
	}{
		"both":    {true, true, "before outer inner after end"},
		"outer":   {false, true, "before outer after end"},
		"inner":   {true, false, "before end"},
		"neither": {false, false, "before end"},
	} {
		finish := func(ctx context.Context, sp pgx.Tx, commit bool) error {
			if commit {
				return sp.Commit(ctx)
			}
			return sp.Rollback(ctx)
		}
		insert := func(ctx context.Context, tx pgx.Tx, id string) error {
			_, err := tx.Exec(ctx, "insert into charge values ($1, 1)", name+" "+id)
			return err
		}
		_, err := once.Do(t.Context(), e, once.Operation{Scope: "t", Key: name}, func(ctx context.Context, tx pgx.Tx) (bool, error) {
			err := insert(ctx, tx, "before")
			outer, e := tx.Begin(ctx)
			if e != nil {
				return false, e
			}
			err = errors.Join(err, insert(ctx, outer, "outer"))
			inner, e := outer.Begin(ctx)
			if e != nil {
				return false, e
			}
			err = errors.Join(err, insert(ctx, inner, "inner"), finish(ctx, inner, c.inner), insert(ctx, outer, "after"))
			return true, errors.Join(err, finish(ctx, outer, c.outer), insert(ctx, tx, "end"))
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got string
		const what = "select coalesce(string_agg(substr(id, $2), ' ' order by ctid), '') from charge where starts_with(id, $1)"
		if err := pool.QueryRow(t.Context(), what, name+" ", len(name)+2).Scan(&got); err != nil || got != c.want {
			t.Errorf("%s: %q, want %q: %v", name, got, c.want, err)
		}
	}
}

// TestSavepointOfOneThatHasEnded: it is over as well, and its rollback leaves the operation
// as it is.
func TestSavepointOfOneThatHasEnded(t *testing.T) {
	t.Parallel()
	pool := openPool(t)
	e := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{})
	_, err := once.Do(t.Context(), e, once.Operation{Scope: "s", Key: "k"}, func(ctx context.Context, tx pgx.Tx) (bool, error) {
		outer, err := tx.Begin(ctx)
		if err != nil {
			return false, err
		}
		inner, err := outer.Begin(ctx)
		if err != nil {
			return false, err
		}
		if err := outer.Rollback(ctx); err != nil {
			return false, err
		}
		if err := inner.Rollback(ctx); !errors.Is(err, pgx.ErrTxClosed) {
			t.Error("rollback:", err)
		}
		if _, err := inner.Exec(ctx, "select 1"); !errors.Is(err, pgx.ErrTxClosed) {
			t.Error("exec:", err)
		}
		return true, insertOf(ctx, tx, "k")
	})
	if err != nil {
		t.Error(err)
	}
}

func insertOf(ctx context.Context, tx pgx.Tx, id string) error {
	_, err := tx.Exec(ctx, "insert into charge values ($1, 1)", id)
	return err
}
