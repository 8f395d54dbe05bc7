package dynamostore

import (
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/oncelib/once/internal/base/ability"
	"github.com/oncelib/once/store"
)

var errIsolation = errors.New("dynamostore: DynamoDB has no isolation levels, so Operation.Isolation must not be set. Try: remove Operation.Isolation, and check the items that the handler has read with conditions")

// txn is a transaction that a handler runs in. The service knows nothing of it before Commit.
type txn struct {
	s          *Store
	tx         Tx
	staleAfter time.Time // BeginOptions.StaleAfter, if Begin has not looked the operation up
}

var _ ability.Counter = (*txn)(nil)

// Begin implements [store.Store]. Begin makes one consistent read of the operation's record. For a first
// attempt and for a batch, Begin makes no request.
func (s *Store) Begin(ctx context.Context, opts store.BeginOptions) (store.Transaction[*Tx], store.Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, store.Record{}, failedRead(err)
	}
	// A handler could rely on reads that this database does not isolate, so a higher level is refused.
	if opts.Isolation > store.ReadCommitted {
		return nil, store.Record{}, &store.Error{Kind: store.KindMisused, Err: errIsolation}
	}
	t := &txn{s: s}
	t.tx.refuse = opts.Refuse
	// Nothing has to be looked up: the condition of the commit refuses an operation that is recorded.
	if opts.ID.IsZero() || opts.Batch || opts.First && opts.StaleAfter.IsZero() {
		t.staleAfter = opts.StaleAfter
		return t, store.Record{}, nil
	}
	if opts.Timeouts.Acquire > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, opts.Timeouts.Acquire)
		defer cancel()
	}
	rec, err := s.Read(ctx, opts.ID)
	if err != nil || rec.State != store.StateAbsent {
		return nil, rec, err
	}
	// The answer of the read has the service's time, so this check needs no request.
	if now, err := s.heard(); err != nil || !opts.StaleAfter.IsZero() && !now.Before(opts.StaleAfter) {
		if err == nil {
			err = &store.Error{Kind: store.KindStale, Err: errLate}
		}
		return nil, store.Record{}, err
	}
	return t, rec, nil
}

// Read implements [store.Operations].
func (s *Store) Read(ctx context.Context, id store.ID) (store.Record, error) {
	name, err := idOf(id)
	if err != nil {
		return store.Record{}, err
	}
	consistent := true
	out, err := s.client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &s.table, Key: item{"id": text(name)}, ConsistentRead: &consistent})
	if err != nil {
		return store.Record{}, failedRead(err)
	}
	now, err := s.heard()
	if err != nil {
		return store.Record{}, err
	}
	return recordOf(out.Item, now)
}

// Tx implements [store.Transaction].
func (t *txn) Tx() *Tx { return &t.tx }

// Statements implements ability.Counter.
func (t *txn) Statements() int { return t.tx.count() }

// ClaimsByCommit implements [store.CommitClaimer].
func (t *txn) ClaimsByCommit() bool { return true }

// Commit implements [store.Transaction].
func (t *txn) Commit(ctx context.Context, c store.Change) error {
	items, err := t.tx.end()
	if err != nil {
		return &store.Error{Kind: store.KindAborted, Err: err}
	}
	if c.StaleAfter.IsZero() {
		c.StaleAfter = t.staleAfter
	}
	_, err = t.s.apply(ctx, c, items)
	return err
}

// Rollback implements [store.Transaction].
func (t *txn) Rollback(context.Context) error {
	// Nothing was sent, so there is nothing to undo.
	_, _ = t.tx.end()
	return nil
}
