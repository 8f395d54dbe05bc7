package once

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/oncelib/once/internal/base/toolarge"
	"github.com/oncelib/once/store"
)

// Result is the value of an operation. Result also says whether this call or an earlier call has
// produced the value.
type Result[T any] struct {
	Value    T
	Replayed bool      // an earlier call has produced the value
	Since    time.Time // when the operation was executed, by the database's clock; zero if this call or a concurrent call has executed the operation, or if the value is from Config.Cache or Config.Shared
}

// Do executes fn once: fn's writes through tx, the key and the value that fn returns commit together. If an
// earlier call has executed the operation, fn does not run, and Do returns the value of that call, decoded from
// JSON. In a decoded value, fields that JSON leaves out have their zero value.
//
// fn may run more than once (after a lost race or a serialization failure), but only one run of fn commits. A run of fn
// must not use variables that an earlier run of fn has changed.
//
// The error of Do is an *[Error], or the *[Failure] that fn has returned in this call or in an earlier call.
//
// Cancelling ctx ends the wait for another call of the operation, and cancels the SQL statements of fn.
// Cancelling ctx does not interrupt COMMIT: after fn has returned, Do finds out whether COMMIT was applied,
// even if ctx is cancelled. After fn has returned, Do takes at most two times Config.Settle.
func Do[T, TX any](ctx context.Context, e *Engine[TX], op Operation, fn func(ctx context.Context, tx TX) (T, error)) (Result[T], error) {
	var value T
	return do(ctx, e, &op, handler[TX]{inTx: answer(e.cfg.MaxResult, fn, &value)}, &value)
}

// do is [Do] for a handler that stores the value of each run in value. The last run is the one that
// commits.
func do[T, TX any](ctx context.Context, e *Engine[TX], op *Operation, h handler[TX], value *T) (Result[T], error) {
	var c call[TX]
	ctx = c.begin(ctx, e, op)
	if op.isZero() { // the program forgot scope and key, and its handler must not run unprotected
		return decode(ctx, &c, c.invalid(e.check(&c.op)), value)
	}
	return decode(ctx, &c, c.exec(ctx, h), value)
}

// answer wraps fn. After the last run, which is the one that commits, value holds its value. The stored answer has at most
// limit bytes.
func answer[T, TX any](limit int64, fn func(context.Context, TX) (T, error), value *T) func(context.Context, TX) (Answer, error) {
	return func(ctx context.Context, tx TX) (Answer, error) {
		v, err := fn(ctx, tx)
		*value = v
		if f := (*Failure)(nil); errors.As(err, &f) {
			if f == nil {
				return Answer{}, errNilFailure // err itself must not be used, because even printing it may panic
			}
			b, err := marshal(f, limit)
			return Answer{Result: store.Result{Kind: store.ResultFailure, Body: b}, Rollback: !f.CommitWrites}, err
		}
		if err != nil {
			return Answer{}, err
		}
		b, err := marshal(v, limit)
		if err != nil {
			return Answer{}, err
		}
		return Answer{Result: store.Result{Body: b}}, nil
	}
}

func marshal(v any, limit int64) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("the value of the handler cannot be encoded as JSON: %w", err)
	}
	if int64(len(b)) > limit {
		return nil, &toolarge.Error{Bytes: int64(len(b)), Max: limit, Try: "store the large data in a separate table and return its key as the value, or set a larger Config.MaxResult"}
	}
	return b, nil
}

var errNilFailure = errors.New("the handler has returned a nil *once.Failure as its error, and Go does not treat this error as nil. Try: return nil, or declare var err error instead of var f *once.Failure")

// decode turns a verdict into the results of Do, and reports the end of the call. A stored result that cannot be decoded is
// an error of the call.
func decode[T, TX any](ctx context.Context, c *call[TX], v verdict, value *T) (r Result[T], err error) {
	var final *Failure
	if v.err == nil {
		r.Replayed, r.Since = v.replayed, v.rec.Since
		if !v.replayed && v.rec.Result.Kind == store.ResultValue {
			r.Value = *value
		} else if final, err = decodeInto(&r.Value, v.rec.Result); err != nil {
			v.err = c.fail(CodeNoResult, v.effect(), err)
		} else if final != nil {
			final.CommitWrites = v.effect() == EffectApplied
		}
	}
	c.finish(ctx, v)
	if final != nil && v.err == nil {
		return r, final
	}
	return r, v.err
}

func decodeInto(value any, res store.Result) (final *Failure, err error) {
	switch res.Kind {
	case store.ResultValue:
		return nil, json.Unmarshal(res.Body, value)
	case store.ResultFailure:
		final = new(Failure)
		return final, json.Unmarshal(res.Body, final)
	case store.ResultOmitted:
		return nil, errors.New("the record has no result: the result was too large to be stored, or was deleted")
	}
	return nil, fmt.Errorf("the stored result has the unknown kind %d: a newer version of once has stored the result. Try: update this program", res.Kind)
}
