package once_test

import (
	"context"
	"errors"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// staleStore loses the answer to a commit that it applies, and then once grants
// the claim with a look-up from before that commit, as PostgreSQL can when lock and
// look-up are one statement.
type staleStore struct {
	*memstore.Store
	lost, stale bool
}

func (s *staleStore) Begin(ctx context.Context, ask store.BeginOptions) (store.Transaction[*memstore.Tx], store.Record, error) {
	if s.lost && !s.stale {
		s.stale = true
		ask.ID.Key += " of nobody" // granted, absent
	}
	txn, rec, err := s.Store.Begin(ctx, ask)
	if txn != nil && !s.lost {
		txn = lostTxn{txn, s}
	}
	return txn, rec, err
}

type lostTxn struct {
	store.Transaction[*memstore.Tx]
	s *staleStore
}

func (t lostTxn) Commit(ctx context.Context, c store.Change) error {
	t.s.lost = true
	return errors.Join(t.Transaction.Commit(ctx, c), &store.Error{Kind: store.KindLost, Err: errors.New("no answer")})
}

// TestSettleDoesNotTrustAStaleLookUp: "not applied" is said only of what was not.
func TestSettleDoesNotTrustAStaleLookUp(t *testing.T) {
	s := &staleStore{Store: memstore.New()}
	e := once.New[*memstore.Tx](s, once.Config{Runs: 1})
	r, err := once.Do(t.Context(), e, once.Operation{Scope: "s", Key: "k"}, func(_ context.Context, tx *memstore.Tx) (int, error) {
		return 7, tx.Put("effect", "1")
	})
	if err != nil || r.Value != 7 {
		t.Errorf("%+v, %v: the commit was applied", r, err)
	}
	if !s.stale {
		t.Error("the stale look-up was not reached")
	}
}
