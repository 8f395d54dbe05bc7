package pgxstore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/pgxstore"
)

// TestAReplayThatWasNotForeseen stops at the first statement of the handler, whatever that is and whatever the handler makes of its error. Nothing of it
// gets to the database, and the caller gets the stored answer.
func TestAReplayThatWasNotForeseen(t *testing.T) {
	t.Parallel()
	pool := openPool(t)
	engine := func() *once.Engine[pgx.Tx] {
		return once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{Runs: 1})
	}
	for _, b := range beginnings {
		for how, end := range endings {
			op := once.Operation{Scope: "not foreseen", Key: once.NewKey(), Optimistic: true}
			if _, err := once.Do(t.Context(), engine(), op, insertCharge(op.Key+"before")); err != nil {
				t.Fatal(err)
			}
			ran := 0
			r, err := once.Do(t.Context(), engine(), op, func(ctx context.Context, tx pgx.Tx) (charge, error) {
				ran++
				err := b.run(ctx, tx, op.Key+"again")
				if err == nil && b.name != "appended" {
					t.Errorf("%s: it has run", b.name)
				}
				return charge{}, end(err)
			})
			if ran != 1 || err != nil || !r.Replayed || r.Value.ID != op.Key+"before" {
				t.Errorf("%s, and the handler %s: ran %d times: %+v, %v", b.name, how, ran, r, err)
			}
			if n := count(t, pool, "select count(*) from charge where id like $1 || 'again%'", op.Key); n != 0 {
				t.Errorf("%s, and the handler %s: %d charges", b.name, how, n)
			}
		}
	}
}

// TestOptimisticFindsWhatIsInTheWay: a record that has expired is none, and one of other bytes is a mismatch.
func TestOptimisticFindsWhatIsInTheWay(t *testing.T) {
	t.Parallel()
	pool := openPool(t)
	engine := func() *once.Engine[pgx.Tx] { return once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{}) }
	op := once.Operation{Scope: "in the way", Key: "k", Optimistic: true, Fingerprint: once.FingerprintOf([]byte("a"))}
	do := func(op once.Operation, id string) (once.Result[charge], error) {
		return once.Do(t.Context(), engine(), op, insertCharge(id))
	}
	if r, err := do(op, "way 1"); err != nil || r.Replayed {
		t.Fatal(r, err)
	}
	other := op
	other.Fingerprint = once.FingerprintOf([]byte("b"))
	if _, err := do(other, "way 2"); once.CodeOf(err) != once.CodeMismatch {
		t.Error(err)
	}
	if _, err := pool.Exec(t.Context(), "update once_operation set expires_at = now() - interval '1 s' where scope = 'in the way'"); err != nil {
		t.Fatal(err)
	}
	if r, err := do(op, "way 3"); err != nil || r.Replayed {
		t.Error(r, err)
	}
	if n := count(t, pool, "select count(*) from charge where id like 'way%'"); n != 2 {
		t.Errorf("%d charges, want 2", n)
	}
}

// TestOptimisticTellsWhenItIsClaimed: not before the answer to the first statement, once, and never of a replay.
func TestOptimisticTellsWhenItIsClaimed(t *testing.T) {
	t.Parallel()
	s := pgxstore.New(openPool(t), pgxstore.Config{})
	for i, want := range []int{1, 0} {
		told := 0
		txn, _, err := s.Begin(t.Context(), store.BeginOptions{ID: store.ID{Scope: "told", Key: "k"}, Optimistic: func() { told++ }})
		if err != nil || told != 0 {
			t.Fatal(err, told)
		}
		_, err = insertCharge(fmt.Sprint("told", i))(t.Context(), txn.Tx())
		_, _ = insertCharge(fmt.Sprint("told again", i))(t.Context(), txn.Tx())
		if told != want || (err == nil) != (want == 1) {
			t.Errorf("told %d times, want %d: %v", told, want, err)
		}
		c := store.Change{ID: store.ID{Scope: "told", Key: "k"}, Next: store.Record{State: store.StateDone, Fence: 1, Nonce: fmt.Append(nil, i)}, Retain: time.Hour}
		if err := txn.Commit(t.Context(), c); (err == nil) != (want == 1) || err != nil && store.KindOf(err) != store.KindTaken {
			t.Error(err)
		}
	}
}
