package oncehttp_test

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// faulty is a store that fails when it is told to.
type faulty struct {
	*memstore.Store
	begin  func(store.BeginOptions) error         // before BEGIN
	commit func(store.Change, func() error) error // around COMMIT
	asks   atomic.Int64
	firsts atomic.Int64 // asks that may skip the look-up
	down   bool         // nothing can be read
}

func (f *faulty) Read(ctx context.Context, id store.ID) (store.Record, error) {
	f.asks.Add(1)
	if f.down {
		return store.Record{}, fault(store.KindUnavailable)
	}
	return f.Store.Read(ctx, id)
}

func (f *faulty) Begin(ctx context.Context, ask store.BeginOptions) (store.Transaction[*memstore.Tx], store.Record, error) {
	f.asks.Add(1)
	if ask.First {
		f.firsts.Add(1)
	}
	if f.down {
		return nil, store.Record{}, fault(store.KindUnavailable)
	}
	if f.begin != nil {
		if err := f.begin(ask); err != nil {
			return nil, store.Record{}, err
		}
	}
	txn, rec, err := f.Store.Begin(ctx, ask)
	if txn != nil {
		txn = &faultyTxn{txn, f}
	}
	return txn, rec, err
}

type faultyTxn struct {
	store.Transaction[*memstore.Tx]
	f *faulty
}

func (t *faultyTxn) Commit(ctx context.Context, c store.Change) error {
	done := false
	commit := func() error { done = true; return t.Transaction.Commit(ctx, c) }
	if t.f.commit == nil {
		return commit()
	}
	err := t.f.commit(c, commit)
	if !done && store.KindOf(err) != store.KindLost { // a lost one stays open: the server has not noticed yet
		_ = t.Rollback(ctx)
	}
	return err
}

func fault(kind store.Kind) error {
	return &store.Error{Kind: kind, Err: errors.New("secret of the database")}
}
