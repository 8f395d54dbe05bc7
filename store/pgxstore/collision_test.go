package pgxstore_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/pgxstore"
)

// TestACollisionIsAReplay: whatever the claim did or, here, did not see, the primary
// key decides, at every isolation level, and the caller gets the winner's result.
func TestACollisionIsAReplay(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool := openPool(t)
	e, elsewhere := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{}), once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{Runs: 1})
	for _, level := range []store.Isolation{store.DefaultIsolation, store.ReadCommitted, store.RepeatableRead, store.Serializable} {
		id := fmt.Sprint("collide-", level)
		op := once.Operation{Scope: "collide", Key: id, Isolation: level}
		if _, err := once.Do(ctx, e, op, insertCharge(id)); err != nil {
			t.Fatal(err)
		}
		op.Attempt.Number = 1 // skips the look-up, so that the handler runs in vain
		r, err := once.Do(ctx, elsewhere, op, insertCharge(id+" again"))
		if err != nil || !r.Replayed || r.Value.ID != id {
			t.Errorf("isolation %d: %+v, %v", level, r, err)
		}
	}
	if n := count(t, pool, "select count(*) from charge where id like 'collide%again'"); n != 0 {
		t.Errorf("%d effects of losers", n)
	}
}

// TestAWrongFirstIsAReplay: a transport that sends a first attempt twice, header and
// all, gets the answer, and not the handler's trouble with its own effect.
func TestAWrongFirstIsAReplay(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool := openPool(t)
	op := once.Operation{Scope: "first", Key: "k", Attempt: once.Attempt{Number: 1}}
	for i := range 2 {
		e := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{Runs: 1}) // one that has not seen it
		r, err := once.Do(ctx, e, op, insertCharge("first"))                       // its primary key is taken the second time
		if err != nil || r.Replayed != (i > 0) || r.Value.ID != "first" {
			t.Errorf("attempt %d: %+v, %v", i+1, r, err)
		}
	}
}

// TestAnAppendedWriteThatCollides is no duplicate: its key is the business's.
func TestAnAppendedWriteThatCollides(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool := openPool(t)
	if _, err := pool.Exec(ctx, "insert into charge values ('taken', 1)"); err != nil {
		t.Fatal(err)
	}
	_, err := once.Do(ctx, engineOn(pool), once.Operation{Scope: "appended", Key: "k"}, func(_ context.Context, tx pgx.Tx) (int, error) {
		appendTo(t, tx, store.Statement{SQL: "insert into charge values ('taken', 2)"})
		return 1, nil
	})
	if once.CodeOf(err) != once.CodeFailed || once.EffectOf(err) != once.EffectNotApplied {
		t.Error(err)
	}
}
