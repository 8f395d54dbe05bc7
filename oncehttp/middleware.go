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

// Middleware protects handlers of the ordinary shape, which get their transaction from
// [Tx]. Methods that are not keyed pass straight through, without a transaction.
//
// Inside of itself, or of a [Handler] or [BatchHandler] of the same engine, it does nothing:
// what is served with the context of a request that is being executed is part of that
// operation. Its own Config then has no effect, so it panics at the first request if that is
// not the same as the one outside. All of this goes for requests that a handler makes in its
// own process, too, whatever their key and route: one that is to be an operation of its own
// needs a context of its own, and must not be waited for inside of the handler.
//
// It panics if cfg is invalid.
func Middleware[TX any](e *once.Engine[TX], cfg Config) func(http.Handler) http.Handler {
	rt := NewRoute(e, cfg)
	if isLeased(e) && cfg.Optional {
		panic("oncehttp: Config.Optional lets requests without a key through, and work under a lease needs one.\nTry: another route for what needs no key.")
	}
	return func(next http.Handler) http.Handler {
		return &server[TX]{Route: rt, engine: e, next: next}
	}
}

// Handler is [Middleware] for a handler that takes its transaction as an argument. It
// has one for every method: where no key is asked for, the answer is held back until
// the commit all the same, and a retry executes again.
func Handler[TX any](e *once.Engine[TX], cfg Config, h func(w http.ResponseWriter, r *http.Request, tx TX)) http.Handler {
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h(w, r, Tx[TX](r.Context())) })
	return &server[TX]{Route: NewRoute(e, cfg), engine: e, next: next, everyMethod: true}
}

// BatchHandler is [Handler] for a handler that reads nothing between its writes: it
// declares them, answers, and returns. Where the store can (pgxstore) key, writes, answer
// and COMMIT are then one round trip, see [once.DoBatch].
//
// The handler runs before the database is asked whether there is an answer already, also
// for a retry that is then replayed: it must do nothing but declare and answer. Nothing of
// its answer is sent if a write fails: the client gets a problem, and a retry executes.
// Where the answer depends on what writes find, use [Handler].
//
// Work under a lease writes in phases, and not in a batch: BatchHandler panics if the engine is one of package lease.
func BatchHandler[TX any](e *once.Engine[TX], cfg Config, h func(w http.ResponseWriter, r *http.Request, b *once.Batch)) http.Handler {
	if isLeased(e) {
		panic("oncehttp: a BatchHandler on an engine of package lease: its work is done in phases, and a batch is none.\nTry: Handler, and lease.InTx for the writes.")
	}
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h(w, r, Tx[*once.Batch](r.Context())) })
	return &server[TX]{Route: NewRoute(e, cfg), engine: e, next: next, everyMethod: true, batch: true}
}

func isLeased[TX any](e *once.Engine[TX]) bool {
	_, leased := store.As[ability.Irrevocable](e.Store())
	return leased
}

// server is a protected handler.
type server[TX any] struct {
	*Route

	engine      *once.Engine[TX]
	next        http.Handler
	everyMethod bool // methods that are not keyed get a transaction as well
	batch       bool // the handler gets a [once.Batch] in place of it
}

// ServeHTTP implements [http.Handler].
func (s *server[TX]) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, inside := s.engine.Tx(r.Context())
	if _, batch := s.engine.Batch(r.Context()); inside || batch {
		s.nested(r, batch)
		s.next.ServeHTTP(w, r) // a second claim of the same key would wait for the first, which waits for it
		return
	}
	if !s.everyMethod && !s.plan.keyed(r.Method) {
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

// nested panics if the handler cannot have what it needs of the operation around it,
// which may be a batch, or if it is configured otherwise.
func (s *server[TX]) nested(r *http.Request, batch bool) {
	switch {
	case s.batch && !batch:
		panic("oncehttp: a BatchHandler inside of a Middleware or Handler of the same engine: the transaction is open, and nothing is left to declare.\nTry: BatchHandler alone, or Handler in place of it.")
	case s.everyMethod && batch && !s.batch:
		panic("oncehttp: a Handler inside of a BatchHandler of the same engine: there is no transaction before it returns.\nTry: Handler in place of the BatchHandler.")
	case !s.everyMethod && !s.plan.keyed(r.Method): // it would pass here as well
		return
	}
	if field := nested.Difference(r.Context(), s.engine, &s.plan.Config); field != "" {
		panic("oncehttp: " + field + " of a protected handler differs from that of the operation of the same engine that it is inside of, and would have no effect.\n" +
			"Try: one Middleware for each route, or the same Config for both. A request that a handler makes in its own process, as an operation of its own, needs a context of its own.")
	}
}

// Gate keeps load away. [limit.Limiter] is one. Package oncehttp/openapi takes for granted that any
// other refuses with the codes of that one.
type Gate interface {
	// Enter lets r through, at once or after a while, or refuses it. If r is let through,
	// leave is called exactly once when it is over.
	//
	// Where there is no room, replay tells whether r would be answered from the record: it may
	// then be let through all the same. It is nil if r is not a retry or cannot be looked up:
	// it has no key, its key is in the body, or it says that it is a first attempt
	// (Once-Attempt: 1).
	Enter(r *http.Request, replay limit.Replay) (leave func(), refused *limit.Refusal)
}

// replay is a request that may have been executed.
type replay struct {
	cached func(once.Operation) bool
	isDone func(context.Context, once.Operation) bool
	op     once.Operation
}

func (r *replay) Cached() bool                    { return r.cached(r.op) }
func (r *replay) Stored(ctx context.Context) bool { return r.isDone(ctx, r.op) }

// refusedBy is the problem of a request that a gate has refused.
func (p *plan) refusedBy(r *limit.Refusal) *Problem {
	prob := &Problem{Title: r.Title, Status: r.Status, Detail: r.Detail, Code: ProblemCode(r.Code), Retryable: true, RetryAfter: r.After}
	if r.Code != "" { // a gate of the program's own need not have one
		prob.Type = p.problemType(r.Code)
	}
	return prob
}
