package oncetest

import (
	"context"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/internal/torture/harness"
	"github.com/oncelib/once/store"
)

// refusing is a store whose handlers have a statement refused.
type refusing[TX any] struct {
	harness.Store[TX]

	asked, at int
}

func (s *refusing[TX]) Begin(ctx context.Context, opts store.BeginOptions) (store.Transaction[TX], store.Record, error) {
	opts.Refuse = func() bool {
		s.asked++
		return s.asked == s.at
	}
	return s.Store.Begin(ctx, opts)
}

// refuse: of a handler with three statements each is refused in turn: its error is the database's, nothing of the handler is applied, and another one beside
// it, and the store, are not asked.
func refuse[TX any](t *testing.T, c conn[TX]) {
	for at := 1; at < 10; at++ {
		s := &refusing[TX]{Store: c.store, at: at}
		e, beside := once.New(store.Store[TX](s), once.Config{Observer: once.Discard}), once.New(store.Store[TX](c.store), once.Config{Observer: once.Discard})
		op := once.Operation{Scope: "refuse", Key: once.NewKey()}
		var said error
		run := func(ctx context.Context, tx TX) (string, error) {
			for range 3 {
				if err := c.exec(ctx, tx, "insert into mark (name) values (?)", once.NewKey()); err != nil {
					said = err
					next := c.exec(ctx, tx, "insert into mark (name) values (?)", "after it")
					if next == nil {
						t.Error("a statement runs after one that was refused")
					}
					return "swallowed", nil
				}
			}
			return "done", nil
		}
		_, err := once.Do(t.Context(), e, op, run)
		if err == nil {
			if at != 4 || s.asked != 3 {
				t.Errorf("asked %d times, for 3 statements; %d were refused", s.asked, at-1)
			}
			break
		}
		if code := once.CodeOf(err); code != once.CodeAborted || said == nil {
			t.Errorf("statement %d is refused with %v, and the operation ends with %v", at, said, err)
		}
		rec, err := c.store.Read(t.Context(), store.ID{Scope: op.Scope, Key: op.Key})
		if err != nil || rec.State != store.StateAbsent {
			t.Errorf("a record is there: %+v, %v", rec, err)
		}
		if _, err := once.Do(t.Context(), beside, once.Operation{Scope: "beside", Key: op.Key}, run); err != nil {
			t.Errorf("an operation of another engine: %v", err)
		}
	}
	if n := harness.Count(t, c.store, "select count(*) from mark"); n != 4*3 {
		t.Errorf("%d rows, of 4 operations", n)
	}
}

// TestAStatementIsRefused: BeginOptions.Refuse fails one statement of one handler as the database would.
func TestAStatementIsRefused(t *testing.T) {
	testenv.Both(t)
	harness.Each(t, []string{harness.Pgx, harness.SQLite, harness.Postgres, harness.MariaDB, harness.MySQL}, func(t *testing.T, kind string) {
		d := newDatabase(t, kind)
		if kind == harness.Pgx {
			refuse(t, pgxWorld(t, d).open(nil))
			return
		}
		refuse(t, sqlWorld(t, d).open(nil))
	})
}
