package saga

import (
	"context"
	"encoding/json"
	"reflect"
	"time"

	"github.com/oncelib/once/lease"
)

// CallStep is a step that calls another service: see [Call].
type CallStep[In, Out any] struct{ *step }

// Call returns a step that calls another service. The intent (the note that the call will be made) and the input
// are committed before the call, and the service's answer is committed with the next commit of the saga. If the
// call is repeated later or by another process, the key and the input (the parameters key and in of fn) are the
// same as in the first call.
//
// If fn returns a [once.Failure], the service has refused the call. If fn returns [Again], the service has
// answered "not yet". An error that [lease.NotSent] has made says that the call was not made. After an error of
// another kind than once.Failure, Again and lease.NotSent, the call may have taken effect: then SafeToRepeat,
// DedupedFor, Check or Cancel decides how the saga continues. If the step has none of SafeToRepeat, DedupedFor,
// Check and Cancel, the saga is stuck until a person decides.
func Call[In, Out any](name string, fn func(ctx context.Context, key string, in In) (Out, error)) *CallStep[In, Out] {
	s := newStep(name, kindCall, reflect.TypeFor[Out]())
	s.call = func(ctx context.Context, key string, in json.RawMessage) (json.RawMessage, error) {
		return encoded(in, func(i In) (Out, error) { return fn(ctx, key, i) })
	}
	return &CallStep[In, Out]{s}
}

// SafeToRepeat says that the call has one effect, however often and however late it is made with the same key.
// If a step with SafeToRepeat has no Undo, neither an intent nor the input of the step is stored before the
// call: a repeated call gets the input that the flow computes at that time.
func (s *CallStep[In, Out]) SafeToRepeat() *CallStep[In, Out] { s.repeats, s.life = true, 0; return s }

// DedupedFor says that the service deduplicates by the key, and remembers a key for the time life. While the
// outcome of the call is unknown, the call is repeated, but only until nine tenths of life have passed since the
// intent (the note that the call will be made) was committed. The context of the call also ends after nine tenths
// of life. If the call returns the error of [Again], a new intent is committed before the next attempt.
func (s *CallStep[In, Out]) DedupedFor(life time.Duration) *CallStep[In, Out] {
	s.repeats, s.life = life > 0, life
	return s
}

// Check sets the function find, which asks the service for the outcome of a call. [lease.Finding]
// describes the results of find.
func (s *CallStep[In, Out]) Check(find func(ctx context.Context, key string) (Out, lease.Finding, error)) *CallStep[In, Out] {
	s.check = func(ctx context.Context, key string) (json.RawMessage, lease.Finding, error) {
		out, found, err := find(ctx, key)
		if err != nil || found != lease.Happened {
			return nil, found, err
		}
		b, err := json.Marshal(out)
		return b, found, err
	}
	return s
}

// Undo sets the function fn, which undoes the effect of the call. fn runs only after the result of the call is
// known; the runner first finds out the outcome of a call in flight. Function fn must be safe to repeat: fn is
// called again until it returns nil. The key that fn gets is the same each time, and is not the key of the
// call.
func (s *CallStep[In, Out]) Undo(fn func(ctx context.Context, key string, in In, result Out) error) *CallStep[In, Out] {
	s.undoCall = func(ctx context.Context, key string, in, result json.RawMessage) error {
		return decoded(in, result, func(i In, o Out) error { return fn(ctx, key, i, o) })
	}
	return s
}

// Cancel sets the function fn, which undoes a call by the key of the call, even if the call has not yet arrived
// at the service. After fn has returned nil, the service must refuse a call that arrives later with the same key.
// The function fn gets the key of the call, whatever the outcome of the call was. The function fn must be safe to
// repeat.
func (s *CallStep[In, Out]) Cancel(fn func(ctx context.Context, key string, in In) error) *CallStep[In, Out] {
	s.cancel = func(ctx context.Context, key string, in json.RawMessage) error {
		return decoded(in, json.RawMessage("null"), func(i In, _ *struct{}) error { return fn(ctx, key, i) })
	}
	return s
}

// Pivot has the same meaning as [TxStep.Pivot].
func (s *CallStep[In, Out]) Pivot() *CallStep[In, Out] { s.pivot = true; return s }

// Attempts has the same meaning as [TxStep.Attempts].
func (s *CallStep[In, Out]) Attempts(n int) *CallStep[In, Out] { s.attempts = n; return s }

// Timeout has the same meaning as [TxStep.Timeout].
func (s *CallStep[In, Out]) Timeout(d time.Duration) *CallStep[In, Out] { s.timeout = d; return s }

// Do has the same meaning as [TxStep.Do].
func (s *CallStep[In, Out]) Do(ctx Context, in In) (Out, error) {
	return take[In, Out](ctx, s.step, "", in)
}

// DoKey has the same meaning as [TxStep.DoKey].
func (s *CallStep[In, Out]) DoKey(ctx Context, key string, in In) (Out, error) {
	return take[In, Out](ctx, s.step, key, in)
}
