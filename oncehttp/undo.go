package oncehttp

import (
	"bytes"
	"cmp"
	"io"
	"net/http"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/internal/base/wire"
	"github.com/oncelib/once/store"
)

// names returns the scope and the key of the operation on a route. An undo derives them from the undone operation and not from its own route. So an
// operation is undone once, even if two routes can undo it.
func (x *Exchange) names(route string) (scope, key string) {
	if x.plan.Undoes != "" {
		route = x.plan.Undoes
	}
	return wire.Scope(x.principal, route), x.ownKey()
}

// ownKey returns the key of the operation itself. For an undo, this is not the key of the undone operation.
func (x *Exchange) ownKey() string {
	if x.plan.Undoes != "" && x.key != "" {
		return keyname.Undo(x.key)
	}
	return x.key
}

// findUndone finds the operation to undo, and makes sure that it can no longer be executed. It reports whether this operation had an effect. If it
// had none, findUndone has already answered the request.
func (x *Exchange) findUndone() bool {
	ctx, cancel := x.Context()
	defer cancel()
	forward := x.Operation
	forward.Key, forward.Name = x.key, x.plan.Undoes
	// The fingerprint belongs to the request for the undo, so it must not be compared.
	forward.Fingerprint, forward.Request = once.Fingerprint{}, nil
	forward.Attempt.Number = 0 // the number belongs to this request
	rec, err := x.route.void(ctx, forward)
	switch res := &rec.Result; {
	case err != nil:
		x.WriteProblem(x.Problem(err))
	case res.RolledBack, res.Kind == store.ResultFailure, res.Status >= 400: // a refusal has no effect that could be undone
		if name := x.plan.preset.StatusHeader; name != "" {
			x.w.Header()[name] = []string{wire.StatusNothing}
		}
		x.write(http.StatusNoContent, nil)
	// The handler cannot undo an answer that was not stored.
	case res.Kind != store.ResultValue:
		p := x.operationProblem(ProblemResultUnavailable)
		p.Detail = "The undo was not executed, because it needs the answer to the request that it undoes, and this answer is not stored. The request may still be in effect. Undo the effect of the request in another way."
		x.WriteProblem(p)
	default:
		x.undoes = res
		return true
	}
	return false
}

// responseOf returns a stored answer as a response for the handler. Each run gets its own copy, because a handler may change it.
func responseOf(res *store.Result) *http.Response {
	status := cmp.Or(res.Status, http.StatusOK)
	r := &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: make(http.Header, len(res.Header)), Body: io.NopCloser(bytes.NewReader(res.Body)), ContentLength: int64(len(res.Body)),
	}
	for _, f := range res.Header {
		r.Header.Add(f.Name, f.Value)
	}
	return r
}
