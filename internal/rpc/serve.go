package rpc

import (
	"cmp"
	"context"
	"errors"
	"math"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/nested"
	"github.com/oncelib/once/internal/base/testtx"
	"github.com/oncelib/once/internal/base/wire"
	"github.com/oncelib/once/internal/engine/voided"
	"github.com/oncelib/once/limit"
	"github.com/oncelib/once/store"
)

// defaultMaxStored is the same default as over HTTP.
const defaultMaxStored = 1 << 20

// Server executes calls once.
type Server[TX any] struct {
	Engine    *once.Engine[TX]
	Optional  bool
	Wait      time.Duration
	Retain    time.Duration
	KeyTime   bool
	MaxStored int64 // the limit of a stored message, in bytes; 0: defaultMaxStored
	Isolation store.Isolation
	Timeouts  store.Timeouts
	Quota     *limit.Quota
	Undoes    map[string]string // by method: the method that it undoes
	Config    any               // a pointer to the configuration of the adapter
}

// Call is a unary call that the server has received.
type Call struct {
	Principal string
	Method    string                     // "/package.Service/Method"
	Header    func(name string) []string // of the request
	Message   []byte                     // the request message, in a deterministic encoding
	Output    string                     // the full name of the answer message; set only for a method that undoes another one
}

// Serve executes a call, or replays it. handle returns an [Answer]. If handle returns an error, nothing is stored.
func (s *Server[TX]) Serve(ctx context.Context, c Call, handle func(context.Context, TX) (Answer, error)) (a Answer, outcome string, p *Problem) {
	op, p := s.operation(c)
	if p != nil {
		return a, "", p
	}
	if p = s.overQuota(ctx, c, op); p != nil {
		return a, "", p
	}
	says := ""
	var undone *Answer
	if s.Undoes[c.Method] != "" {
		if undone, p = s.findUndone(ctx, c, op); p != nil {
			return a, "", p
		}
		if undone == nil {
			return Answer{Type: c.Output}, wire.StatusNothing, nil
		}
		says = wire.StatusUndone
	}
	rec, again, err := s.Engine.Exec(ctx, op, func(ctx context.Context, tx TX) (once.Answer, error) {
		answer, err := handle(&handlerContext{Context: ctx, engine: s.Engine, tx: tx, config: s.Config, undone: undone}, tx)
		if a = answer; err != nil {
			return once.Answer{}, err
		}
		return encode(answer, cmp.Or(s.MaxStored, defaultMaxStored))
	})
	// A replay stores nothing.
	if err == nil && !again {
		s.addStored(ctx, op, rec.Result)
	}
	switch {
	case err != nil:
		return Answer{}, "", problemOf(err)
	case op.Key == "":
		return a, wire.StatusIgnored, nil
	case !again:
		return a.saying(says), wire.StatusStored, nil
	// An undo came first, so the call was never executed.
	case voided.Is(rec.Result):
		late := undoneProblem
		return Answer{}, "", &late
	}
	if a, err = decode(rec.Result); err != nil {
		return Answer{}, "", problemOf(&once.Error{Code: once.CodeNoResult, Effect: once.EffectApplied, Err: err})
	}
	return a.saying(says), wire.StatusReplayed, nil
}

// Retention returns how long answers are replayed, in seconds.
func (s *Server[TX]) Retention() string {
	return wire.FormatRetention(cmp.Or(s.Retain, s.Engine.Config().Retain))
}

func (s *Server[TX]) operation(c Call) (op once.Operation, p *Problem) {
	if c.Principal == "" {
		return op, &Problem{Code: Unauthenticated, Reason: "UNAUTHENTICATED", Message: "This call needs an authenticated caller."}
	}
	op.Name, op.Attempt.Trace = c.Method, wire.Trace(c.Header(TraceHeader))
	op.Isolation, op.Timeouts = s.Isolation, s.Timeouts
	lines, name := s.key(c)
	switch {
	// An optional call without a key is executed, and a retry of it is executed again.
	case len(lines) == 0 && s.Optional && name == KeyHeader:
		return op, nil
	case len(lines) == 0 && name == UndoesHeader:
		return op, &Problem{
			Code: InvalidArgument, Reason: reasonMissing, SafeNewKey: true,
			Message: "This call needs metadata " + UndoesHeader + ": the idempotency key of the call that it undoes.",
		}
	case len(lines) == 0:
		return op, &Problem{
			Code: InvalidArgument, Reason: reasonMissing, SafeNewKey: true,
			Message: "This call needs metadata " + KeyHeader + " with an idempotency key. Send the same key with every retry of the same intent.",
		}
	case len(lines) > 1:
		return op, invalidKey(errors.New("send one " + name + ", not several"))
	}
	key, err := wire.ParseKey(lines[0], false)
	if err != nil {
		return op, invalidKey(err)
	}
	var ok bool
	if op.Attempt.FirstSent, ok = wire.FirstSentOrKeyTime(c.Header(FirstSentHeader), key, s.KeyTime); !ok {
		invalid := firstSentInvalid
		return op, &invalid
	}
	op.Scope, op.Key = s.names(c, key)
	op.Fingerprint = once.FingerprintOf([]byte(c.Method), c.Message)
	op.Wait, op.Retain, op.Attempt.Bytes = s.Wait, s.Retain, int64(len(c.Message))
	op.Attempt.Number = c.attempt()
	return op, nil
}

// attempt returns the number of the attempt, from the metadata of the call; 0 if the metadata has none. gRPC repeats calls
// below the interceptors of the client, with the same once-attempt, so its own number is added.
func (c *Call) attempt() int {
	n := wire.Attempt(c.Header(AttemptHeader))
	if before := wire.Attempt(c.Header(PreviousHeader)); before > 0 {
		n = max(n, 1)
		n += min(before, math.MaxInt32-n)
	}
	return n
}

func invalidKey(err error) *Problem {
	return &Problem{Code: InvalidArgument, Reason: reasonInvalid, Message: err.Error()}
}

// Nested reports whether ctx belongs to an operation of the same engine. Then the call is a part of this operation. The error
// says that this server has another configuration, which would have no effect.
func (s *Server[TX]) Nested(ctx context.Context, adapter string) (inside bool, err error) {
	if _, inside = s.Engine.Tx(ctx); !inside {
		return false, nil
	}
	if field := nested.Difference(ctx, s.Engine, s.Config); field != "" {
		err = errors.New(adapter + ": " + field + " of an interceptor has no effect, because the call runs inside of another interceptor of the same engine that has a different value. " +
			"Try: one interceptor for each method, or the same Config for both interceptors")
	}
	return true, err
}

// handlerContext is the context of a handler. It contains the transaction and the configuration.
type handlerContext struct {
	context.Context //nolint:containedctx // it is a context itself

	engine, tx, config any
	undone             *Answer
}

// Value implements [context.Context].
func (r *handlerContext) Value(key any) any {
	switch key {
	case txKey{}:
		return r.tx
	case undoneKey{}:
		return r.undone
	case nested.Key{Engine: r.engine}:
		return r.config
	}
	return r.Context.Value(key)
}

type txKey struct{}

// TxOf returns the transaction of the call of ctx.
func TxOf(ctx context.Context) any { return ctx.Value(txKey{}) }

// Tx does the same as TxOf, for the users of the named adapter. It panics if ctx has no transaction of this type.
func Tx[TX any](ctx context.Context, adapter string) TX {
	tx, ok := TxOf(ctx).(TX)
	if ok {
		return tx
	}
	if tx, ok = testtx.Of(ctx).(TX); ok && TxOf(ctx) == nil { // from oncetest.WithTx
		return tx
	}
	if other := TxOf(ctx); other != nil {
		panic(adapter + ": Tx: the transaction of the call has another type.\nTry: the transaction type of the engine.")
	}
	panic(adapter + ": Tx: the context has no transaction.\nTry: the context of a unary call that has passed the interceptor and whose method is not declared free of side effects.")
}
