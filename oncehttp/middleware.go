package oncehttp

import (
	"context"
	"net/http"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/ability"
	"github.com/oncelib/once/internal/base/nested"
	"github.com/oncelib/once/internal/base/wire"
	"github.com/oncelib/once/limit"
	"github.com/oncelib/once/store"
)

// Middleware returns a function that protects an ordinary [http.Handler]. The handler gets its transaction from the function [Tx]. A request whose
// method does not carry keys (Preset.Methods), such as GET, is passed to the handler without a transaction.
//
// If Middleware is nested in a Middleware, [Handler] or [BatchHandler] of the same engine, the inner Middleware does nothing. A request with the
// context of a running operation is a part of the running operation. The Config of an inner (nested) Middleware has no effect. If the inner Config
// differs from the Config of the outer middleware, the inner Middleware panics at the first request. A request that a handler sends to its own
// process with the handler's context is also a part of the handler's operation, whatever its key and route are. To make a request that a handler
// sends to its own process a separate operation, give the request another context, and do not wait for its answer in the handler.
//
// Middleware panics if cfg is invalid.
func Middleware[TX any](e *once.Engine[TX], cfg Config) func(http.Handler) http.Handler {
	rt := NewRoute(e, cfg)
	if isLeased(e) && cfg.Optional {
		panic("oncehttp: Config.Optional accepts requests without a key, but work under a lease needs a key.\nTry: a separate route for requests without a key.")
	}
	return func(next http.Handler) http.Handler {
		return &server[TX]{Route: rt, engine: e, next: next}
	}
}

// Handler is like [Middleware], but for a handler that takes its transaction as an argument. The handler gets a transaction for every HTTP method.
// Even for a method that does not carry keys, the answer is held back until the commit. For a method that does not carry keys, a retry is executed
// again.
func Handler[TX any](e *once.Engine[TX], cfg Config, h func(w http.ResponseWriter, r *http.Request, tx TX)) http.Handler {
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h(w, r, Tx[TX](r.Context())) })
	return &server[TX]{Route: NewRoute(e, cfg), engine: e, next: next, everyMethod: true}
}

// BatchHandler is like [Handler], but for a handler that reads nothing from the database between its writes: the handler declares its writes on the
// batch, writes its answer, and returns. If the store supports batches (pgxstore), the key, the writes, the answer and COMMIT are sent to the
// database in one round trip, see [once.DoBatch].
//
// The handler of a BatchHandler runs before the database is asked whether a stored answer exists. So the handler of a BatchHandler also runs for a
// retry. The client gets the stored answer, and the answer that the handler has written for the retry is dropped. Therefore the handler must only
// declare writes and write its answer, and must do nothing else. If a write fails, the answer of the handler is not sent: the client gets a
// [Problem], and a retry is executed. If the answer depends on the results of writes, use [Handler].
//
// BatchHandler panics if the engine comes from package lease, because work under a lease writes in phases and not in a batch. BatchHandler also
// panics if cfg is invalid.
func BatchHandler[TX any](e *once.Engine[TX], cfg Config, h func(w http.ResponseWriter, r *http.Request, b *once.Batch)) http.Handler {
	if isLeased(e) {
		panic("oncehttp: a BatchHandler on an engine of package lease cannot run: its work is done in phases, and a batch has no phases.\nTry: Handler, and lease.InTx for the writes.")
	}
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h(w, r, Tx[*once.Batch](r.Context())) })
	return &server[TX]{Route: NewRoute(e, cfg), engine: e, next: next, everyMethod: true, batch: true}
}

func isLeased[TX any](e *once.Engine[TX]) bool {
	_, leased := store.As[ability.Irrevocable](e.Store())
	return leased
}

// server is a handler that is protected by a route.
type server[TX any] struct {
	*Route

	engine      *once.Engine[TX]
	next        http.Handler
	everyMethod bool // requests with other methods also get a transaction
	batch       bool // the handler gets a [once.Batch] instead of a transaction
}

// ServeHTTP implements [http.Handler].
func (s *server[TX]) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, inside := s.engine.Tx(r.Context())
	if _, batch := s.engine.Batch(r.Context()); inside || batch {
		s.nested(r, batch)
		s.next.ServeHTTP(w, r) // a second claim of the same key would wait for the first one, and the first one waits for this handler
		return
	}
	if !s.everyMethod && !s.plan.keyed(r.Method) {
		// The client has sent a key that this method does not use, and must learn that it is not protected.
		if s.plan.keySent(r) && s.plan.preset.StatusHeader != "" {
			w.Header()[s.plan.preset.StatusHeader] = []string{wire.StatusIgnored}
		}
		s.next.ServeHTTP(w, r)
		return
	}
	x, ok := s.Read(w, r)
	if !ok {
		return
	}
	defer x.Close()
	x.next = s.next
	ctx, cancel := x.Context()
	defer cancel()
	x.Finish(s.exec(ctx, x))
}

func (s *server[TX]) exec(ctx context.Context, x *Exchange) (store.Record, bool, error) {
	if s.batch {
		return s.engine.ExecBatch(ctx, x.Operation, func(ctx context.Context, b *once.Batch) (once.Answer, error) { return x.execute(ctx, b) })
	}
	return s.engine.Exec(ctx, x.Operation, func(ctx context.Context, tx TX) (once.Answer, error) { return x.execute(ctx, tx) })
}

// nested panics if the outer operation does not give the handler the value that it needs, or if the outer operation has another Config.
func (s *server[TX]) nested(r *http.Request, batch bool) {
	switch {
	case s.batch && !batch:
		panic("oncehttp: a BatchHandler cannot run inside of a Middleware or Handler of the same engine, because the transaction is already open.\nTry: only BatchHandler, or Handler instead of BatchHandler.")
	case s.everyMethod && batch && !s.batch:
		panic("oncehttp: a Handler cannot run inside of a BatchHandler of the same engine, because a BatchHandler has no open transaction.\nTry: Handler instead of BatchHandler.")
	case !s.everyMethod && !s.plan.keyed(r.Method): // without the outer operation the request would also pass without a transaction
		return
	}
	if field := nested.Difference(r.Context(), s.engine, &s.plan.Config); field != "" {
		panic("oncehttp: " + field + " of a protected handler has no effect, because the handler runs inside of another handler of the same engine that has a different value.\n" +
			"Try: one Middleware for each route, or the same Config for both handlers. If a handler sends a separate request to its own process, the request needs a separate context.")
	}
}

// Gate limits the requests that are executed. [limit.Limiter] is a Gate. The documents of package oncehttp/openapi contain the problem codes of
// [limit.Limiter] for every Gate.
type Gate interface {
	// Enter admits the request r, at once or after a wait, or refuses r. If r is admitted, refused is nil, and the caller calls leave exactly one time
	// when r ends.
	//
	// A gate that is full can ask the parameter replay whether r would be answered with a stored answer, and may then admit r anyway. The parameter
	// replay is nil if r is certainly no retry, or if r cannot be looked up: r has no key, its key is in the body, or r is declared to be a first
	// attempt (Once-Attempt: 1).
	Enter(r *http.Request, replay limit.Replay) (leave func(), refused *limit.Refusal)
}

// replay is a request whose operation may already have been executed.
type replay struct {
	cached func(once.Operation) bool
	isDone func(context.Context, once.Operation) bool
	op     once.Operation
}

func (r *replay) Cached() bool                    { return r.cached(r.op) }
func (r *replay) Stored(ctx context.Context) bool { return r.isDone(ctx, r.op) }

// refusedBy returns the problem for a request that a gate has refused.
func (p *plan) refusedBy(r *limit.Refusal) *Problem {
	prob := &Problem{Title: r.Title, Status: r.Status, Detail: r.Detail, Code: ProblemCode(r.Code), Retryable: true, RetryAfter: r.After}
	if r.Code != "" { // a gate of the program need not set a code
		prob.Type = p.problemType(r.Code)
	}
	return prob
}
