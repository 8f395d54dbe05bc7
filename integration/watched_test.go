package integration

import (
	"context"
	"errors"

	"github.com/oncelib/once/store"
)

// watched tells a hook before and after each call of a store.
type watched[TX any] struct {
	store.Store[TX]
	hook func(place string)
}

func (s watched[TX]) Unwrap() any { return s.Store }

func (s watched[TX]) Begin(ctx context.Context, ask store.BeginOptions) (store.Transaction[TX], store.Record, error) {
	s.hook("before begin")
	txn, rec, err := s.Store.Begin(ctx, ask)
	s.hook("after begin")
	return s.wrap(txn), rec, err
}

func (s watched[TX]) Swap(ctx context.Context, c store.Change) (store.Record, error) {
	s.hook("before swap")
	rec, err := s.Store.Swap(ctx, c)
	s.hook("after swap")
	return rec, err
}

// Join implements [store.Joiner].
func (s watched[TX]) Join(ctx context.Context, tx TX, ask store.BeginOptions) (store.Transaction[TX], store.Record, error) {
	j, ok := store.As[store.Joiner[TX]](s.Store)
	if !ok {
		return nil, store.Record{}, errors.New("the store cannot join")
	}
	s.hook("before join")
	txn, rec, err := j.Join(ctx, tx, ask)
	s.hook("after join")
	return s.wrap(txn), rec, err
}

func (s watched[TX]) wrap(txn store.Transaction[TX]) store.Transaction[TX] {
	if txn == nil {
		return nil
	}
	return watchedTxn[TX]{txn, s.hook}
}

type watchedTxn[TX any] struct {
	store.Transaction[TX]
	hook func(string)
}

func (t watchedTxn[TX]) Unwrap() any { return t.Transaction }

func (t watchedTxn[TX]) Commit(ctx context.Context, c store.Change) error {
	t.hook("before commit")
	err := t.Transaction.Commit(ctx, c)
	if store.KindOf(err) == store.KindTaken {
		t.hook("taken")
	}
	t.hook("after commit")
	return err
}

func (t watchedTxn[TX]) Rollback(ctx context.Context) error {
	t.hook("before rollback")
	err := t.Transaction.Rollback(ctx)
	t.hook("after rollback")
	return err
}
