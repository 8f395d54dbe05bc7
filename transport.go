package once

import (
	"context"
	"time"

	"github.com/oncelib/once/store"
)

// The rest of this file is for transports, such as oncehttp: packages that read an operation out of a request, and write the answer.
// A program calls [Do], [DoBatch] or [Join].

// Answer is the return value of a handler of [Engine.Exec]: the result to store.
type Answer struct {
	Result   store.Result
	Rollback bool // roll back the handler's writes, and then store only Result; package lease rolls nothing back, because earlier writes of its handler may be committed already
}

// Exec is [Do] without the JSON encoding, for transports such as package oncehttp: fn returns the result to
// store. Exec returns the record, and whether an earlier call has stored that record. Other goroutines may
// read the record at the same time, so the caller must not change the bytes of the record. If op has neither a
// scope nor a key, Exec runs fn in a plain transaction and keeps no record.
func (e *Engine[TX]) Exec(ctx context.Context, op Operation, fn func(context.Context, TX) (Answer, error)) (store.Record, bool, error) {
	return e.exec(ctx, &op, handler[TX]{inTx: fn})
}

// ExecBatch is [DoBatch] without the JSON encoding, for transports such as package oncehttp: fn returns the result to
// store, as in [Engine.Exec].
func (e *Engine[TX]) ExecBatch(ctx context.Context, op Operation, fn func(context.Context, *Batch) (Answer, error)) (store.Record, bool, error) {
	return e.exec(ctx, &op, handler[TX]{batch: fn})
}

// Store returns the store of the engine. Transports, such as package oncehttp, call Store.
func (e *Engine[TX]) Store() store.Store[TX] { return e.store }

// Config returns the configuration of the engine, with its defaults. Transports, such as package
// oncehttp, call Config.
func (e *Engine[TX]) Config() Config { return e.cfg }

// Tx returns the transaction of the operation that ctx belongs to, while this engine executes the operation.
// The transaction of another engine is not returned, so that code never gets the transaction of another
// database.
func (e *Engine[TX]) Tx(ctx context.Context) (tx TX, ok bool) {
	if f := e.currentFrame(ctx); f != nil {
		tx, ok = f.tx.(TX)
	}
	return tx, ok
}

// Batch returns the batch of the operation that ctx belongs to, in the same way as [Engine.Tx] returns
// the transaction of an operation.
func (e *Engine[TX]) Batch(ctx context.Context) (b *Batch, ok bool) {
	if f := e.currentFrame(ctx); f != nil {
		b, ok = f.tx.(*Batch)
	}
	return b, ok
}

// IsDone reports whether op is done, so that a call would replay op and not execute it. If the fingerprint of
// op differs from the stored fingerprint, IsDone also returns true, although a call would be refused. A
// server under load can use IsDone to choose which requests to serve. IsDone costs one look-up without a
// transaction, or no look-up if Config.Cache has the result. IsDone returns false if the operation is not
// done, or if the store has not answered.
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

// ReadRecord returns the record of op and executes nothing. Use ReadRecord to show the state of an operation. The state is
// [store.StateAbsent] if no record exists: either the operation was not executed, or an engine without leases executes it now. The
// state is [store.StateUnknown] if the owner of a lease has died during an external call whose outcome only an operator can find
// out. ReadRecord returns StateUnknown as soon as the lease of the dead owner has expired, even if the stored record does not
// contain StateUnknown yet. The caller of ReadRecord must not change the bytes of the record. Even if Config.Synced is set,
// ReadRecord may return a record that the standby does not have yet.
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

// Cached reports whether Config.Cache has the result of op, so that a call would replay op without asking the
// store. If the fingerprint of op differs from the stored fingerprint, Cached also returns true, although a
// call would be refused.
func (e *Engine[TX]) Cached(op Operation) bool {
	if e.check(&op) != nil {
		return false
	}
	return e.cache.Has(e.id(op.Scope, op.Key), time.Now())
}
