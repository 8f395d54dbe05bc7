package saga

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
)

// Step is a step that a flow may take. The values that [Tx], [Call] and [Batch] return implement
// Step.
type Step interface{ core() *step }

type kind string

const (
	kindTx    kind = "tx"
	kindCall  kind = "call"
	kindBatch kind = "batch"
)

// step is a step without the types of its values. The functions of the user take and return JSON here.
type step struct {
	name        string
	kind        kind
	result, tx  reflect.Type
	last, pivot bool
	attempts    int
	timeout     time.Duration

	runTx   func(ctx context.Context, tx any, in json.RawMessage) (json.RawMessage, error)
	undoTx  func(ctx context.Context, tx any, in, result json.RawMessage) error
	declare func(b *once.Batch, in json.RawMessage) (json.RawMessage, error)
	revoke  func(b *once.Batch, in, result json.RawMessage) error

	call     func(ctx context.Context, key string, in json.RawMessage) (json.RawMessage, error)
	undoCall func(ctx context.Context, key string, in, result json.RawMessage) error
	check    func(ctx context.Context, key string) (json.RawMessage, lease.Finding, error)
	cancel   func(ctx context.Context, key string, in json.RawMessage) error
	repeats  bool
	life     time.Duration // how long the service remembers the key; 0: for ever
}

func (s *step) core() *step { return s }

// isUndone reports whether the compensation undoes or cancels the step.
func (s *step) isUndone() bool {
	return s.undoTx != nil || s.revoke != nil || s.undoCall != nil || s.cancel != nil
}

// needsIntent reports whether the intent of a call must be stored before the call. This is so if the call may have to be undone, if
// it is the pivot, or if it must not be made twice.
func (s *step) needsIntent() bool {
	return s.isUndone() || s.pivot || !s.repeats || s.life > 0
}

// contract returns the contract that an intent stores.
func (s *step) contract(now time.Time) *contract {
	c := &contract{Repeat: s.repeats, Check: s.check != nil, Cancel: s.cancel != nil}
	// The reserve of one tenth is for the difference of the clocks and for the time of the call.
	if s.life > 0 {
		c.Until = now.Add(s.life - s.life/10).UTC()
	}
	return c
}

func newStep(name string, k kind, result reflect.Type) *step {
	if err := checkName(name); err != nil {
		panic("saga: " + err.Error())
	}
	if strings.Contains(name, "/") {
		panic(fmt.Sprintf("saga: the name %q of a step contains a slash, which separates the name of a step from its key. Try: a name without a slash", name))
	}
	return &step{name: name, kind: k, result: result}
}

// maxName is the longest name that every database can store, in bytes.
const maxName = 255

// checkName refuses a name that some database would change or refuse.
func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("a step or a saga has no name")
	case len(name) > maxName:
		return fmt.Errorf("the name %.40q... has %d bytes, and at most %d are allowed. Try: the key of a row in the name, not the row", name, len(name), maxName)
	case !utf8.ValidString(name), strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("the name %q has control characters or is not valid UTF-8. Try: printable text", name)
	}
	return nil
}

// decoded calls fn with the decoded values of a step.
func decoded[In, Out any](in, result json.RawMessage, fn func(In, Out) error) error {
	var i In
	var o Out
	if err := json.Unmarshal(in, &i); err != nil {
		return stuckf("the stored input of a step cannot be decoded: %v", err)
	}
	if err := json.Unmarshal(result, &o); err != nil {
		return stuckf("the stored result of a step cannot be decoded: %v", err)
	}
	return fn(i, o)
}

// encoded calls fn with the decoded input of a step, and encodes the result.
func encoded[In, Out any](in json.RawMessage, fn func(In) (Out, error)) (json.RawMessage, error) {
	var i In
	if err := json.Unmarshal(in, &i); err != nil {
		return nil, stuckf("the input of a step or a flow cannot be decoded: %v", err)
	}
	out, err := fn(i)
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(out)
	if err != nil {
		return nil, stuckf("the result of a step or a flow cannot be encoded as JSON: %v", err)
	}
	return b, nil
}

// TxStep is a step in a transaction of the store: see [Tx].
type TxStep[TX, In, Out any] struct{ *step }

// Tx returns a step that writes to the database of the store. fn's writes, fn's result, and the fact that the
// step is done commit together. fn may run more than once, but only one run commits. In and Out are stored as
// JSON.
//
// If fn returns a [once.Failure], the step has answered "no": the writes of fn are rolled back, and the flow gets
// the failure, now and in each later run. If fn returns the error of [Again], the step has answered "not yet".
// After an error that is neither a once.Failure nor an error of Again, the step is tried again later.
func Tx[TX, In, Out any](name string, fn func(ctx context.Context, tx TX, in In) (Out, error)) *TxStep[TX, In, Out] {
	s := newStep(name, kindTx, reflect.TypeFor[Out]())
	s.tx = reflect.TypeFor[TX]()
	s.runTx = func(ctx context.Context, tx any, in json.RawMessage) (json.RawMessage, error) {
		return encoded(in, func(i In) (Out, error) { return fn(ctx, tx.(TX), i) }) //nolint:forcetypeassert // NewRunner compares the types
	}
	return &TxStep[TX, In, Out]{s}
}

// Undo sets the function fn, which undoes the effect of the step. fn gets the input and the result of the
// step. fn's writes and the fact that the step is undone commit together. A step that has failed has no
// effect, so it is not undone.
func (s *TxStep[TX, In, Out]) Undo(fn func(ctx context.Context, tx TX, in In, result Out) error) *TxStep[TX, In, Out] {
	s.undoTx = func(ctx context.Context, tx any, in, result json.RawMessage) error {
		return decoded(in, result, func(i In, o Out) error { return fn(ctx, tx.(TX), i, o) }) //nolint:forcetypeassert // likewise
	}
	return s
}

// Pivot makes the step the pivot of the saga: when the step is done, the saga cannot compensate any more. If a
// later step answers "no", the saga is stuck until a person decides.
func (s *TxStep[TX, In, Out]) Pivot() *TxStep[TX, In, Out] { s.pivot = true; return s }

// Last says that the saga ends with this step: the end is part of the step's commit. The result of the step is
// the result of the saga, whatever the flow does after the step.
func (s *TxStep[TX, In, Out]) Last() *TxStep[TX, In, Out] { s.last = true; return s }

// Attempts sets how often the step is tried before the saga begins to undo its steps. Default: [Config.Attempts].
func (s *TxStep[TX, In, Out]) Attempts(n int) *TxStep[TX, In, Out] { s.attempts = n; return s }

// Timeout limits the time of one try of the step. Default: [Config.StepTimeout].
func (s *TxStep[TX, In, Out]) Timeout(d time.Duration) *TxStep[TX, In, Out] { s.timeout = d; return s }

// Do runs the step. If an earlier run of the flow has finished the step, Do does not run the step again, but
// returns its stored result. If Do returns an error that is not a [once.Failure], this run of the flow must end:
// the flow must return the error.
func (s *TxStep[TX, In, Out]) Do(ctx Context, in In) (Out, error) {
	return take[In, Out](ctx, s.step, "", in)
}

// DoKey is Do for a step that a flow takes more than once. The parameter key distinguishes the calls of DoKey
// in one run, and must be the same in each run of the flow.
func (s *TxStep[TX, In, Out]) DoKey(ctx Context, key string, in In) (Out, error) {
	return take[In, Out](ctx, s.step, key, in)
}

// BatchStep is a step that only writes: see [Batch].
type BatchStep[In, Out any] struct{ *step }

// Batch returns a step whose writes and result are known before the step runs. The function fn does not execute
// the writes, but only adds them to the batch b. The writes, the result and the fact that the step is done are
// sent in one round trip if the store supports batches. An error of fn has the same meaning as an error of the
// function that is passed to [Tx].
func Batch[In, Out any](name string, fn func(b *once.Batch, in In) (Out, error)) *BatchStep[In, Out] {
	s := newStep(name, kindBatch, reflect.TypeFor[Out]())
	s.declare = func(b *once.Batch, in json.RawMessage) (json.RawMessage, error) {
		return encoded(in, func(i In) (Out, error) { return fn(b, i) })
	}
	return &BatchStep[In, Out]{s}
}

// Undo is like [TxStep.Undo], but the function fn only adds writes to the batch b.
func (s *BatchStep[In, Out]) Undo(fn func(b *once.Batch, in In, result Out) error) *BatchStep[In, Out] {
	s.revoke = func(b *once.Batch, in, result json.RawMessage) error {
		return decoded(in, result, func(i In, o Out) error { return fn(b, i, o) })
	}
	return s
}

// Pivot has the same meaning as [TxStep.Pivot].
func (s *BatchStep[In, Out]) Pivot() *BatchStep[In, Out] { s.pivot = true; return s }

// Last has the same meaning as [TxStep.Last].
func (s *BatchStep[In, Out]) Last() *BatchStep[In, Out] { s.last = true; return s }

// Attempts has the same meaning as [TxStep.Attempts].
func (s *BatchStep[In, Out]) Attempts(n int) *BatchStep[In, Out] { s.attempts = n; return s }

// Do has the same meaning as [TxStep.Do].
func (s *BatchStep[In, Out]) Do(ctx Context, in In) (Out, error) {
	return take[In, Out](ctx, s.step, "", in)
}

// DoKey has the same meaning as [TxStep.DoKey].
func (s *BatchStep[In, Out]) DoKey(ctx Context, key string, in In) (Out, error) {
	return take[In, Out](ctx, s.step, key, in)
}
