package once_test

import (
	"context"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// beginCounter counts transactions.
type beginCounter struct {
	*memstore.Store
	begins int
}

func (s *beginCounter) Begin(ctx context.Context, ask store.BeginOptions) (store.Transaction[*memstore.Tx], store.Record, error) {
	s.begins++
	return s.Store.Begin(ctx, ask)
}

// TestAProbableReplayIsReadFirst: without a transaction, and never believed unread.
func TestAProbableReplayIsReadFirst(t *testing.T) {
	s := &beginCounter{Store: memstore.New()}
	executed := 0
	do := func(e *once.Engine[*memstore.Tx], op once.Operation) {
		t.Helper()
		op.Scope = "s"
		_, err := once.Do(t.Context(), e, op, func(_ context.Context, tx *memstore.Tx) (int, error) {
			executed++
			return 1, tx.Put("n", "1")
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	expect := func(what string, begins, runs int) {
		t.Helper()
		if s.begins != begins || executed != runs {
			t.Errorf("%s: %d transactions and %d executions, want %d and %d", what, s.begins, executed, begins, runs)
		}
	}
	here, elsewhere := once.New[*memstore.Tx](s, once.Config{}), once.New[*memstore.Tx](s, once.Config{})
	do(here, once.Operation{Key: "k"})
	expect("executed", 1, 1)
	do(here, once.Operation{Key: "k"})
	expect("replayed where it was executed", 1, 1)
	do(elsewhere, once.Operation{Key: "k", Attempt: once.Attempt{Number: 2}})
	expect("replayed elsewhere, second attempt", 1, 1)
	do(elsewhere, once.Operation{Key: "k"})
	expect("replayed where it was seen", 1, 1)
	s.Advance(once.DefaultRetain * 2)
	do(here, once.Operation{Key: "k"})
	expect("expired", 2, 2)
	do(here, once.Operation{Key: "new", Attempt: once.Attempt{Number: 2}})
	expect("second attempt, but the first was lost", 3, 3)
	durable := once.New[*memstore.Tx](s, once.Config{Synced: true})
	do(durable, once.Operation{Key: "new"})
	do(durable, once.Operation{Key: "new", Attempt: once.Attempt{Number: 2}})
	expect("replays that must be durable", 5, 3)
}
