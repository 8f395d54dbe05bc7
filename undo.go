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

// FailureUndone is the Code of the [Failure] that an operation has for good if it was undone before it was executed.
const FailureUndone = voided.Code

// Undo undoes op for a caller that need not know whether op was executed: a service that takes part in the saga of another service offers it.
// If op was executed, undo runs once and gets the stored value. If not, op is not executed any more: a caller that asks for it
// later gets a [Failure] with [FailureUndone]. did reports whether there was an effect to undo.
//
//	did, err := once.Undo(ctx, engine, op, func(ctx context.Context, tx pgx.Tx, d Deposit) error {
//		return takeBack(ctx, tx, d)
//	})
//
// op is that of the [Do] to undo, with the same Retain or a longer one. Its Fingerprint is compared, if it is set. Its
// Attempt.FirstSent is when the Do was first sent: if that is so long ago that its record may have expired, the error is [CodeStale].
// An op in flight is waited for as Operation.Wait says, and then is [CodeInFlight]. An op that has ended with a [Failure] has nothing to undo.
//
// The undo is an operation of its own, in the scope of op and under its key and ":undo". Its errors are the same as of Do; a Failure that
// undo returns is stored, and the effect of op stays. Undo may be called again at any time, also after a crash in its middle. A retry of op
// after its undo still gets the stored value.
//
// Work of package lease, whose phases are several commits, cannot be undone as a whole: there the error is [CodeInvalid].
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

// undo returns the operation that undoes op; the look-up of op took that long. The undo has no FirstSent: its record is kept at least as long as that of op.
func (op *Operation) undo(took time.Duration) (own Operation) {
	own = *op
	// So that the key of another operation that looks like an undo is refused, and not replayed.
	own.Fingerprint = FingerprintOf([]byte("undo"), []byte(op.Key))
	own.Key = keyname.Undo(op.Key)
	own.Attempt.FirstSent = time.Time{}
	own.Wait = max(0, op.Wait-took)
	return own
}

// void makes sure that op is not executed any more: if no record exists, it stores a [Failure] with [FailureUndone]. It returns
// the record of op. Transports can do the same with [Engine.Exec].
func (e *Engine[TX]) void(ctx context.Context, op Operation) (store.Record, error) {
	c := call[TX]{e: e, op: op, id: e.id(op.Scope, op.Key)}
	if err := e.check(&op); err != nil || e.irrevocable {
		return store.Record{}, c.invalid(cmp.Or(err, errUndoLeased)).err
	}
	op.Attempt.Number = 0 // the undo may be a first attempt, but op may have been sent before
	rec, _, err := e.Exec(ctx, op, func(context.Context, TX) (Answer, error) { return Answer{Result: voided.Result()}, nil })
	return rec, err
}

var errUndoLeased = errors.New("work under a lease is several commits, which no single transaction undoes. Try: a saga, whose steps have an undo each")
