package once_test

import (
	"context"
	"errors"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// lateStore loses the answer to a Swap that is applied later, and after it the third
// transaction is out of reach.
type lateStore struct {
	*memstore.Store
	late   *store.Change
	begins int
}

func (s *lateStore) Swap(_ context.Context, c store.Change) (store.Record, error) {
	s.late = &c
	return store.Record{}, &store.Error{Kind: store.KindLost, Err: errors.New("no answer")}
}

func (s *lateStore) Begin(ctx context.Context, ask store.BeginOptions) (store.Transaction[*memstore.Tx], store.Record, error) {
	if s.begins++; s.begins == 3 {
		return nil, store.Record{}, &store.Error{Kind: store.KindUnavailable, Err: errors.New("not reached")}
	}
	return s.Store.Begin(ctx, ask)
}

// TestALostSwapStaysInDoubt: it holds no claim while it is on its way, so that nothing
// which happens to the same call afterwards proves that it was not applied.
func TestALostSwapStaysInDoubt(t *testing.T) {
	s := &lateStore{Store: memstore.New()}
	op := once.Operation{Scope: "s", Key: "k"}
	decline := func(context.Context, *memstore.Tx) (int, error) { return 0, &once.Failure{Code: "declined"} }
	_, err := once.Do(t.Context(), once.New[*memstore.Tx](s, once.Config{}), op, decline)
	if s.late == nil {
		t.Fatal("the Swap was not reached")
	}
	if _, e := s.Store.Swap(t.Context(), *s.late); e != nil {
		t.Fatal(e)
	}
	if once.CodeOf(err) != once.CodeUnavailable || once.EffectOf(err) != once.EffectInDoubt {
		t.Errorf("%v: but then it was applied", err)
	}
	r, err := once.Do(t.Context(), once.New[*memstore.Tx](s.Store, once.Config{}), op, decline)
	if f := (*once.Failure)(nil); !errors.As(err, &f) || !r.Replayed {
		t.Errorf("asked again: %+v, %v", r, err)
	}
}
