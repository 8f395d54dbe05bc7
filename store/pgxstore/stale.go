package pgxstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/store"
)

// Begin implements [store.Store]. A connection that turns out to be broken, because
// the server has restarted since it was last used, is replaced: what begins a
// transaction applies nothing, so that it can be sent again. Those that lie idle in
// the pool may be broken, too.
func (s *Store) Begin(ctx context.Context, ask store.Ask) (txn store.Txn[pgx.Tx], rec store.Record, err error) {
	if _, known := beginText[ask.Isolation]; !known {
		return nil, rec, &store.Error{Kind: store.Misused, Err: fmt.Errorf("pgxstore: no isolation level %d. Try: one of store.ReadCommitted, store.RepeatableRead, store.Serializable", ask.Isolation)}
	}
	if err := s.unsendable(ask.ID); err != nil {
		return nil, rec, err
	}
	if ask.Batch {
		txn, err = s.putOff(ctx, ask)
		return txn, rec, err
	}
	if ask.First && s.light && !ask.ID.IsZero() && ask.Until.IsZero() {
		txn, err = s.putOffClaim(ctx, ask)
		return txn, rec, err
	}
	txn, rec, err = s.begin(ctx, ask)
	if !isBroken(ctx, err) {
		return txn, rec, err
	}
	for tries := 1 + s.pool.Stat().IdleConns(); tries > 0 && isBroken(ctx, err); tries-- {
		txn, rec, err = s.begin(ctx, ask)
	}
	return txn, rec, err
}

// brokenError has taken its connection along.
type brokenError struct{ error }

func (e *brokenError) Unwrap() error { return e.error }

func isBroken(ctx context.Context, err error) bool {
	return err != nil && ctx.Err() == nil && errors.As(err, new(*brokenError))
}
