package oncehttp

import (
	"context"
	"net/http"

	"github.com/oncelib/once"
)

// Gate keeps load away. [Limiter] of package limit is one. [OpenAPI] takes for granted
// that any other refuses with the codes of that one: RATE_LIMIT.exceeded (429) and
// TRANSIENT.overloaded (503).
//
// [Limiter]: https://pkg.go.dev/github.com/oncelib/once/limit#Limiter
type Gate interface {
	// Enter lets r through, at once or after a while, or refuses it. If r is let through,
	// leave is called exactly once when it is over.
	//
	// Where there is no room, replay tells whether r would be answered from the record: it may
	// then be let through all the same. It is nil if r is not a retry or cannot be looked up:
	// it has no key, its key is in the body, or it says that it is a first attempt
	// (Once-Attempt: 1).
	Enter(r *http.Request, replay Replay) (leave func(), refused *Problem)
}

// Replay tells a [Gate] whether a request would be answered from the record. Ask for Cached
// first: it is true also while the database is down.
type Replay interface {
	// Cached reports whether the engine's cache has the answer. Nothing is asked for it.
	Cached() bool

	// Stored reports whether the answer is known: one look-up, without a transaction (none if
	// the cache has it), that ends with ctx.
	Stored(ctx context.Context) bool
}

// replay is a request that may have been executed.
type replay struct {
	cached func(once.Operation) bool
	known  func(context.Context, once.Operation) bool
	op     once.Operation
}

func (r *replay) Cached() bool                    { return r.cached(r.op) }
func (r *replay) Stored(ctx context.Context) bool { return r.known(ctx, r.op) }

// gateProblems are those of package limit, as far as a document tells.
var gateProblems = map[string]Problem{
	"RATE_LIMIT.exceeded":  {Status: http.StatusTooManyRequests, Title: "Too many requests", Retryable: true},
	"TRANSIENT.overloaded": {Status: http.StatusServiceUnavailable, Title: "Overloaded", Retryable: true},
}
