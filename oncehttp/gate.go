package oncehttp

import (
	"context"
	"net/http"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/asked"
	"github.com/oncelib/once/internal/timeout"
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
	// Where there is no room, replay tells for one look-up, without a transaction (none
	// if the engine's cache has it), whether r would be answered from the record: it may
	// then be let through all the same. It is nil if r is not a retry or cannot be looked up: it has no key, its key
	// is in the body, or it says that it is a first attempt (Once-Attempt: 1).
	Enter(r *http.Request, replay func(context.Context) bool) (leave func(), refused *Problem)
}

// gateProblems are those of package limit, as far as a document tells.
var gateProblems = map[string]Problem{
	"RATE_LIMIT.exceeded":  {Status: http.StatusTooManyRequests, Title: "Too many requests", Retryable: true},
	"TRANSIENT.overloaded": {Status: http.StatusServiceUnavailable, Title: "Overloaded", Retryable: true},
}

// begin notes how long the client waits and asks the gate. Of the operation the scope
// and the key are known, not the body.
func (x *exchange) begin(principal string) (refused *Problem) {
	d, ok := timeout.Of(x.r)
	if !ok {
		p := x.plan.problem(CodeTimeoutInvalid)
		return &p
	}
	if d > 0 {
		x.deadline = time.Now().Add(d)
	}
	if x.plan.Gate == nil {
		return nil
	}
	var replay func(context.Context) bool
	if x.key != "" && callerOf(x.r).Attempt != 1 {
		known, p, r, key := x.known, x.plan, x.r, x.key
		replay = func(ctx context.Context) bool {
			return known(ctx, once.Operation{Scope: asked.Scope(principal, p.routeOf(r)), Key: key})
		}
	}
	x.left, refused = x.plan.Gate.Enter(x.r, replay)
	return refused
}

func (x *exchange) leave() {
	if x.left != nil {
		x.left()
	}
}
