package oncehttp

import (
	"context"
	"net/http"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/wire"
	"github.com/oncelib/once/limit"
)

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
func refusedBy(r *limit.Refusal) *Problem {
	p := &Problem{Title: r.Title, Status: r.Status, Detail: r.Detail, Code: ProblemCode(r.Code), Retryable: true, RetryAfter: r.After}
	if r.Code != "" { // a gate of the program's own need not have one
		p.Type = wire.ProblemType(r.Code)
	}
	return p
}
