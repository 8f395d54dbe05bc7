package pgxstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/oncelib/once"
)

// TestBatchThatDeclinesLate: a "no" is an answer, too, and is not given to a retry whose
// first answer may be forgotten. It is if there was another one.
func TestBatchThatDeclinesLate(t *testing.T) {
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			pool := openPool(t, mode)
			decline := func(b *once.Batch) (charge, error) {
				b.Exec("insert into charge values ('declined', 1)")
				return charge{}, &once.Failure{Code: "declined"}
			}
			op := once.Operation{Scope: "stale", Key: "k", Attempt: once.Attempt{FirstSent: time.Now().Add(-100 * time.Hour)}}
			_, err := once.DoBatch(ctx, engineOn(pool), op, decline)
			if once.CodeOf(err) != once.CodeStale || once.EffectOf(err) != once.EffectNotApplied {
				t.Error("too late:", err)
			}
			if n := count(t, pool, "select count(*) from once_operation"); n != 0 {
				t.Errorf("%d records", n)
			}
			op.Attempt.FirstSent = time.Now()
			for range 2 {
				var failure *once.Failure
				if r, err := once.DoBatch(ctx, engineOn(pool), op, decline); !errors.As(err, &failure) || failure.Code != "declined" {
					t.Errorf("in time: %+v, %v", r, err)
				}
				op.Attempt.FirstSent = time.Now().Add(-100 * time.Hour) // found
			}
			op.Key = "done"
			op.Attempt.FirstSent = time.Now()
			for i := range 2 {
				fn := declare("done")
				if i > 0 {
					fn = decline
				}
				if r, err := once.DoBatch(ctx, engineOn(pool), op, fn); err != nil || r.Replayed != (i > 0) || r.Value.ID != "done" {
					t.Errorf("declined after it was done: %+v, %v", r, err)
				}
			}
			if n := count(t, pool, "select count(*) from charge where id = 'declined'"); n != 0 {
				t.Errorf("%d effects of what was declined", n)
			}
		})
	}
}

// TestBatchThatIsDoneIsReplayed although what it would do now is refused before the
// claim could tell.
func TestBatchThatIsDoneIsReplayed(t *testing.T) {
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			pool := openPool(t, mode)
			op := once.Operation{Scope: "d", Key: "k"}
			replayed := func(name string, fn func(b *once.Batch) (charge, error)) {
				t.Helper()
				r, err := once.DoBatch(ctx, engineOn(pool), op, fn)
				if err != nil || !r.Replayed || r.Value.ID != "c1" {
					t.Errorf("%s: %+v, %v", name, r, err)
				}
			}
			if _, err := once.DoBatch(ctx, engineOn(pool), op, declare("c1")); err != nil {
				t.Fatal(err)
			}
			one := func(sql string, args ...any) func(*once.Batch) (charge, error) {
				return func(b *once.Batch) (charge, error) {
					b.Exec(sql, args...)
					return charge{}, nil
				}
			}
			replayed("an argument", one("insert into charge values ($1, $2)", "x", make(chan int)))
			replayed("no such table", one("insert into nowhere values (1)"))
			replayed("not allowed", one("truncate charge"))
			if _, err := pool.Exec(ctx, "alter table charge rename to charges"); err != nil {
				t.Fatal(err)
			}
			pool.Reset() // what is prepared would know the table by its new name
			replayed("renamed", declare("c1"))
			_, err := once.DoBatch(ctx, engineOn(pool), once.Operation{Scope: "d", Key: "other"}, declare("c1"))
			if once.CodeOf(err) != once.CodeFailed || once.EffectOf(err) != once.EffectNotApplied {
				t.Error("what was not done:", err)
			}
		})
	}
}
