package once

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/internal/engine/voided"
	"github.com/oncelib/once/store"
)

// FailureUndone is the Code of the [Failure] that an operation gets if [Undo] was called for the operation
// before the operation was executed. Every call of the operation after Undo returns the Failure with the code
// FailureUndone.
const FailureUndone = voided.Code

// Undo undoes the operation op. The caller does not have to know whether op was executed. For example, a
// service that takes part in a saga of another service calls Undo when the saga asks the service to undo its
// step. If op was executed, the function undo takes effect once, and the argument value of undo is the stored
// value of op. If op was not executed before Undo, op will never be executed: a later call of op gets a
// [Failure] with the code [FailureUndone]. The result did reports whether there was an effect to undo.
//
//	did, err := once.Undo(ctx, engine, op, func(ctx context.Context, tx pgx.Tx, d Deposit) error {
//		return takeBack(ctx, tx, d)
//	})
//
// The parameter op is the operation that was passed to [Do]. The field Retain of op must be the same as in the
// call of [Do], or longer. If op has a Fingerprint, the Fingerprint is compared with the stored Fingerprint.
// Set Attempt.FirstSent of op to the time at which the operation was first sent. If FirstSent is so long ago
// that the record of op may have expired, the error is [CodeStale]. If op is in flight, Undo waits for the end
// of op, for at most Operation.Wait. If op is still in flight after Operation.Wait, the error is
// [CodeInFlight]. If op has ended with a [Failure], there is nothing to undo.
//
// The call of Undo is stored as a separate operation, which has the scope of op, and the key of op followed
// by ":undo". Undo returns the same errors as [Do]. If undo returns a Failure, the Failure is stored, and the
// effect of op remains. Undo may be called again at any time, also after a crash during an earlier call. A
// retry of op after Undo still gets the stored value of op.
//
// Undo does not support work of package lease, because this work consists of several commits: the error is
// [CodeInvalid].
func Undo[T, TX any](ctx context.Context, e *Engine[TX], op Operation, undo func(ctx context.Context, tx TX, value T) error) (did bool, err error) {
	began := time.Now()
	rec, err := e.void(ctx, op)
	if err != nil || rec.Result.Kind == store.ResultFailure {
		return false, err
	}
	var value T
	if _, err := decodeInto(&value, rec.Result); err != nil {
		return false, &Error{Code: CodeNoResult, Effect: EffectApplied, Scope: op.Scope, Key: e.id(op.Scope, op.Key).Key, Err: err}
	}
	own := op.undo(time.Since(began))
	r, err := Do(ctx, e, own, func(ctx context.Context, tx TX) (undone, error) { return undone{true}, undo(ctx, tx, value) })
	if err == nil && !r.Value.Undone {
		err = &Error{Code: CodeMismatch, Effect: EffectNotApplied, Scope: op.Scope, Key: e.id(own.Scope, own.Key).Key, Err: errMismatch}
	}
	return err == nil, err
}

// undone is the stored value of an undo.
type undone struct {
	Undone bool `json:"undone"`
}

// undo returns the operation that undoes op. took is how long the look-up of op took. The undo has no FirstSent, because its record is kept at least as long as that of op.
func (op *Operation) undo(took time.Duration) (own Operation) {
	own = *op
	// The fingerprint refuses another operation whose key looks like that of an undo. Otherwise that operation would be replayed.
	own.Fingerprint = FingerprintOf([]byte("undo"), []byte(op.Key))
	own.Key = keyname.Undo(op.Key)
	own.Attempt.FirstSent = time.Time{}
	own.Wait = max(0, op.Wait-took)
	return own
}

// void makes sure that op is not executed any more: if no record exists, it stores a [Failure] with [FailureUndone]. It returns the
// record of op. Transports can do the same with [Engine.Exec].
func (e *Engine[TX]) void(ctx context.Context, op Operation) (store.Record, error) {
	c := call[TX]{e: e, op: op, id: e.id(op.Scope, op.Key)}
	if err := e.check(&op); err != nil || e.irrevocable {
		return store.Record{}, c.invalid(cmp.Or(err, errUndoLeased)).err
	}
	op.Attempt.Number = 0 // the undo may be a first attempt, but op may have been sent before
	rec, _, err := e.Exec(ctx, op, func(context.Context, TX) (Answer, error) { return Answer{Result: voided.Result()}, nil })
	return rec, err
}

var errUndoLeased = errors.New("work under a lease has several commits, so one transaction cannot undo it. Try: a saga, in which each step has an undo")
