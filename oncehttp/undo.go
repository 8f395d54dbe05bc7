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

// names returns the scope and the key of the operation, on this route. The scope and key of an undo are derived from the undone operation and not
// from the undo's own route, so that an operation is undone once even if two routes undo it.
func (x *Exchange) names(route string) (scope, key string) {
	if x.plan.Undoes != "" {
		route = x.plan.Undoes
	}
	return wire.Scope(x.principal, route), x.ownKey()
}

// ownKey is the key of the operation itself: not the key that it undoes.
func (x *Exchange) ownKey() string {
	if x.plan.Undoes != "" && x.key != "" {
		return keyname.Undo(x.key)
	}
	return x.key
}

// findUndone finds the operation to undo, and makes sure that it is not executed any more. It reports whether that operation had an effect to undo.
// If it had not, findUndone has answered the request.
func (x *Exchange) findUndone() bool {
	ctx, cancel := x.Context()
	defer cancel()
	forward := x.Operation
	forward.Key, forward.Name = x.key, x.plan.Undoes
	forward.Fingerprint, forward.Request = once.Fingerprint{}, nil
	forward.Attempt.Number = 0 // the number belongs to this request
	rec, err := x.route.void(ctx, forward)
	switch res := &rec.Result; {
	case err != nil:
		x.WriteProblem(x.Problem(err))
	case res.RolledBack, res.Kind == store.ResultFailure, res.Status >= 400: // a "no" has no effect
		if name := x.plan.preset.StatusHeader; name != "" {
			x.w.Header()[name] = []string{wire.StatusNothing}
		}
		x.write(http.StatusNoContent, nil)
	case res.Kind != store.ResultValue:
		x.WriteProblem(x.operationProblem(ProblemResultUnavailable))
	default:
		x.undoes = res
		return true
	}
	return false
}

// responseOf is a stored answer for a handler, which may read and change it: each run gets a copy of its own.
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
