package once

import (
	"context"
	"time"

	"github.com/oncelib/once/store"
)

// The rest of this file is for transports, such as oncehttp: packages that read an operation out of a request, and write the answer.
// A program calls [Do], [DoBatch] or [Join].

// Answer is the answer of a handler of [Engine.Exec], to be stored.
type Answer struct {
	Result   store.Result
	Rollback bool // undo the handler's writes, then store the result by itself; where the store cannot undo them (package lease), only store it
}

// Exec is [Do] below the codec, for transports: fn returns the result to store.
// It returns the record, and whether an earlier call has stored it. Other goroutines may
// read the record, too: its bytes must not be changed. An Operation
// with neither scope nor key runs fn in a plain transaction that keeps no record.
func (e *Engine[TX]) Exec(ctx context.Context, op Operation, fn func(context.Context, TX) (Answer, error)) (store.Record, bool, error) {
	return e.exec(ctx, &op, handler[TX]{inTx: fn})
}

// ExecBatch is [Engine.Exec] for [DoBatch].
func (e *Engine[TX]) ExecBatch(ctx context.Context, op Operation, fn func(context.Context, *Batch) (Answer, error)) (store.Record, bool, error) {
	return e.exec(ctx, &op, handler[TX]{batch: fn})
}

// Store returns the store under the engine. It is for transports.
func (e *Engine[TX]) Store() store.Store[TX] { return e.store }

// Config returns the configuration of the engine, with its defaults. It is for transports.
func (e *Engine[TX]) Config() Config { return e.cfg }

// Tx returns the transaction of the operation that ctx belongs to, while this
// engine executes it: transactions of two databases never mix.
func (e *Engine[TX]) Tx(ctx context.Context) (tx TX, ok bool) {
	if f := e.currentFrame(ctx); f != nil {
		tx, ok = f.tx.(TX)
	}
	return tx, ok
}

// Batch is [Engine.Tx] for the batch of an operation that declares its writes.
func (e *Engine[TX]) Batch(ctx context.Context) (b *Batch, ok bool) {
	if f := e.currentFrame(ctx); f != nil {
		b, ok = f.tx.(*Batch)
	}
	return b, ok
}

// IsDone reports whether op is done, so that it would be replayed and not executed (or
// be refused, if its fingerprint differs). A server asks it to choose which requests to
// serve. It costs one look-up without a transaction; no look-up if Config.Cache has the result. False
// means that the operation is not done, or that the store has not answered.
func (e *Engine[TX]) IsDone(ctx context.Context, op Operation) bool {
	if e.check(&op) != nil {
		return false
	}
	id := e.id(op.Scope, op.Key)
	if e.cache.Has(id, time.Now()) {
		return true
	}
	rec, err := e.read(ctx, &op, id)
	return err == nil && rec.State == store.StateDone
}

// ReadRecord returns the record of op and executes nothing. It is for callers that ask for the state of an operation.
// The state is [store.StateAbsent] if no record exists: nothing was done, or it is being done now by an engine without leases.
// It is [store.StateUnknown] as well if the owner of a lease has died in an external call whose outcome only a person can find out, and no
// caller has come since. The bytes of the record must not be changed. Under Config.Synced it may return a commit that
// the standby does not have yet.
func (e *Engine[TX]) ReadRecord(ctx context.Context, op Operation) (store.Record, error) {
	c := call[TX]{e: e, op: op, id: e.id(op.Scope, op.Key)}
	if err := e.check(&op); err != nil {
		return store.Record{}, c.invalid(err).err
	}
	rec, err := e.read(ctx, &op, c.id)
	if err != nil {
		return store.Record{}, c.fail(CodeUnavailable, EffectNotApplied, err)
	}
	if rec.Idle() && rec.CallStarted {
		rec.State = store.StateUnknown
	}
	return rec, nil
}

// Cached reports whether Config.Cache has the result of op, so that it would be replayed (or be
// refused, if its fingerprint differs) without the store.
func (e *Engine[TX]) Cached(op Operation) bool {
	if e.check(&op) != nil {
		return false
	}
	return e.cache.Has(e.id(op.Scope, op.Key), time.Now())
}
