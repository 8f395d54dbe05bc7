package oncetest

import (
	"context"
	"errors"
	"time"

	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// InTx returns a store that writes everything in tx, a transaction of the test: operations, leases, and the messages of an outbox. The returned
// store commits nothing, so none of its writes is left after the test has rolled back tx. Pass the returned store to once.New, lease.InTx and
// outbox.New in place of s. The store s must be a sqlstore or a pgxstore.
//
// Only one goroutine at a time may use a transaction, so do not call the methods of the returned store concurrently. InTx
// causes no faults; use [HTTP] for a test with faults.
func InTx[TX any](s store.Store[TX], tx TX) interface {
	store.Store[TX]
	store.Joiner[TX]
	store.Renewer
	sqlplane.SQL[TX]
} {
	in := &inTx[TX]{tx: tx}
	var joins, speaks bool
	in.joiner, joins = store.As[store.Joiner[TX]](s)
	in.sql, speaks = store.As[sqlplane.SQL[TX]](s)
	if !joins || !speaks {
		panic("oncetest: InTx: the store cannot work in a transaction of yours. Try: pgxstore or sqlstore")
	}
	in.classifier, _ = store.As[store.Classifier](s)
	return in
}

type inTx[TX any] struct {
	tx         TX
	joiner     store.Joiner[TX]
	sql        sqlplane.SQL[TX]
	classifier store.Classifier
}

// Begin implements [store.Store].
func (s *inTx[TX]) Begin(ctx context.Context, opts store.BeginOptions) (store.Transaction[TX], store.Record, error) {
	return s.joiner.Join(ctx, s.tx, opts)
}

// Join implements [store.Joiner].
func (s *inTx[TX]) Join(ctx context.Context, tx TX, opts store.BeginOptions) (store.Transaction[TX], store.Record, error) {
	return s.joiner.Join(ctx, tx, opts)
}

// Read implements [store.Operations].
func (s *inTx[TX]) Read(ctx context.Context, id store.ID) (store.Record, error) {
	c, rec, err := s.joiner.Join(ctx, s.tx, store.BeginOptions{ID: id})
	if err == nil && c != nil {
		err = c.Rollback(ctx)
	}
	return rec, err
}

// Swap implements [store.Operations].
func (s *inTx[TX]) Swap(ctx context.Context, c store.Change) (store.Record, error) {
	claim, _, err := s.joiner.Join(ctx, s.tx, store.BeginOptions{})
	if err == nil {
		err = claim.Commit(ctx, c)
	}
	switch {
	case err == nil:
		return c.Next, nil
	case store.KindOf(err) != store.KindTaken:
		return store.Record{}, err
	}
	rec, e := s.Read(ctx, c.ID)
	return rec, errors.Join(err, e)
}

// Renew implements [store.Renewer]. It does nothing: renewals come while the handler runs, and a transaction can have only one user at a
// time. No other process can take over the lease.
func (s *inTx[TX]) Renew(_ context.Context, holds []store.Hold, _ time.Duration) ([]store.Hold, error) {
	return holds, nil
}

// Classify implements [store.Classifier].
func (s *inTx[TX]) Classify(err error) store.Kind {
	if s.classifier == nil {
		return store.KindOf(err)
	}
	return s.classifier.Classify(err)
}

// Dialect implements [sqlplane.Database].
func (s *inTx[TX]) Dialect() sqlplane.Dialect { return s.sql.Dialect() }

// Pool implements [sqlplane.Database].
func (s *inTx[TX]) Pool() sqlplane.Runner { return s.sql.On(s.tx) }

// On implements [sqlplane.SQL].
func (s *inTx[TX]) On(tx TX) sqlplane.Runner { return s.sql.On(tx) }

// Within implements [sqlplane.Database]. It uses a savepoint in place of a transaction.
func (s *inTx[TX]) Within(ctx context.Context, _ store.Isolation, fn func(ctx context.Context, r sqlplane.Runner) error) error {
	claim, _, err := s.joiner.Join(ctx, s.tx, store.BeginOptions{})
	if err != nil {
		return err
	}
	if err := fn(ctx, s.sql.On(claim.Tx())); err != nil {
		return errors.Join(err, claim.Rollback(ctx), claim.Commit(ctx, store.Change{}))
	}
	return claim.Commit(ctx, store.Change{})
}
