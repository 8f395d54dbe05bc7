package once

import (
	"context"
	"errors"

	"github.com/oncelib/once/internal/owner"
	"github.com/oncelib/once/store"
)

// Join is [Do] inside a transaction that the caller has opened and will end.
//
// The result of Join is provisional: the result becomes valid when the caller's transaction commits, and is
// lost if the caller's transaction rolls back. fn runs under a savepoint, so that the caller's transaction
// stays usable if fn fails. Join does not wait for other calls, and runs fn at most once. If another call with
// the same key is in flight, the error has the code [CodeInFlight]. If this call has conflicted with a
// concurrent call, the error has the code [CodeConflict]. After an error with the code CodeInFlight or
// [CodeConflict], the caller should roll back and begin its transaction again. If the handler of a [Do] calls
// Join and returns an error with the code CodeInFlight or [CodeConflict], [Do] rolls back and runs the handler
// again, as often as Config.Runs allows. If the answer to the caller's COMMIT is lost, the caller itself must
// find out whether the transaction was applied: the caller can retry with the same key. fn must not end the
// transaction: the error would be [CodeMisuse].
//
// On PostgreSQL at most 1,000 joined operations can execute in one transaction, because each joined operation
// holds a lock of the server until the transaction ends. Joined operation number 1,001 in a transaction fails
// with [CodeMisuse].
func Join[T, TX any](ctx context.Context, e *Engine[TX], tx TX, op Operation, fn func(ctx context.Context, tx TX) (T, error)) (Result[T], error) {
	var value T
	var c call[TX]
	ctx = c.begin(ctx, e, &op)
	v := c.join(ctx, tx, handler[TX]{inTx: answer(e.cfg.MaxResult, fn, &value)})
	return decode(ctx, &c, v, &value)
}

func (c *call[TX]) join(ctx context.Context, tx TX, h handler[TX]) verdict {
	if err := c.e.check(&c.op); err != nil {
		return c.invalid(err)
	}
	if err := owner.Check(ctx, c.op.Scope); err != nil {
		return c.invalid(err)
	}
	for f := c.e.currentFrame(ctx); f != nil; f = f.outer {
		if f.id == c.id {
			return verdict{err: c.fail(CodeMisuse, EffectNotApplied, errSame)}
		}
	}
	j, ok := store.As[store.Joiner[TX]](c.e.store)
	if !ok {
		return c.invalid(errNoJoin)
	}
	txn, rec, err := j.Join(ctx, tx, store.BeginOptions{ID: c.id, Durable: c.e.cfg.Synced, StaleAfter: c.e.tooLateFrom(&c.op)})
	switch {
	case err != nil:
		return c.beginFailed(err)
	case txn == nil:
		return c.found(rec)
	}
	cl := transactionOf(txn)
	cl.joined = true
	return c.execute(ctx, cl, h)
}

var errSame = errors.New("the handler of an operation calls once.Join with the key of the same operation. Try: a different key for Join")

var errNoJoin = errors.New("the store does not support once.Join, because it cannot use a transaction of the caller. Try: once.Do")

// joinFailed returns the verdict on a handler that has returned the error of an inner Join which has met another call. The whole outer
// operation can then be tried again.
func (c *call[TX]) joinFailed(txn transaction[TX], err error) (v verdict, is bool) {
	var inner *Error
	if !errors.As(err, &inner) || inner.Effect != EffectNotApplied || inner.Code != CodeInFlight && inner.Code != CodeConflict {
		return v, false
	}
	// Inside a Join, only the caller can start again, because the transaction belongs to the caller.
	v = verdict{err: c.fail(inner.Code, EffectNotApplied, err), again: !txn.joined}
	if own := (*Error)(nil); inner.After > 0 && errors.As(v.err, &own) {
		own.After = inner.After
	}
	return v, true
}
