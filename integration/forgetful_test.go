package integration

import (
	"context"
	"errors"

	"github.com/oncelib/once/store"
)

// forgetting loses the answer to the next commit.
type forgetting struct {
	armed   bool
	applied bool   // or not
	then    func() // runs when it is lost
	lost    int
}

func (f *forgetting) lose() error {
	f.armed = false
	f.lost++
	f.then()
	return &store.Error{Kind: store.KindLost, Err: errors.New("the answer is lost")}
}

// forgetful is a store whose commits may be lost.
type forgetful[TX any] struct {
	store.Store[TX]

	f *forgetting
}

func (s forgetful[TX]) Unwrap() any { return s.Store }

func (s forgetful[TX]) Begin(ctx context.Context, ask store.BeginOptions) (store.Transaction[TX], store.Record, error) {
	txn, rec, err := s.Store.Begin(ctx, ask)
	if txn != nil {
		txn = forgetfulTxn[TX]{txn, s.f}
	}
	return txn, rec, err
}

func (s forgetful[TX]) Swap(ctx context.Context, c store.Change) (store.Record, error) {
	if !s.f.armed {
		return s.Store.Swap(ctx, c)
	}
	if s.f.applied {
		if rec, err := s.Store.Swap(ctx, c); err != nil {
			return rec, err
		}
	}
	return store.Record{}, s.f.lose()
}

type forgetfulTxn[TX any] struct {
	store.Transaction[TX]

	f *forgetting
}

func (t forgetfulTxn[TX]) Unwrap() any { return t.Transaction }

func (t forgetfulTxn[TX]) Commit(ctx context.Context, c store.Change) error {
	if !t.f.armed {
		return t.Transaction.Commit(ctx, c)
	}
	end := t.Rollback
	if t.f.applied {
		end = func(ctx context.Context) error { return t.Transaction.Commit(ctx, c) }
	}
	if err := end(ctx); err != nil {
		return err
	}
	return t.f.lose()
}
