package retryhttp

import (
	"context"
	"net/http"
	"time"

	"github.com/oncelib/once/internal/base/wire"
	"github.com/oncelib/once/retry"
)

// NewClient returns a client that retries with t. If t is nil, the client uses the zero [Transport]. The client's field Timeout is 0, because the
// field Timeout would limit all attempts of a call together. Use [retry.Policy].Timeout to limit each attempt, and [retry.Policy].Total to limit
// all attempts together.
func NewClient(t *Transport) *http.Client {
	if t == nil {
		t = new(Transport)
	}
	return &http.Client{Transport: t}
}

// Classify returns the class that [Transport] gives to the outcome of a request, and the time for which the server wants no further attempt. Use
// Classify in a client that repeats requests without a [Transport]. If the request succeeded, the class is [retry.ClassFinal]. The body of resp
// can still be read from its beginning. Classify reads only one part of resp.Request: its idempotency key.
func Classify(resp *http.Response, err error) (retry.Class, time.Duration) {
	switch {
	case err != nil:
		return classOf(err)
	case resp == nil || resp.StatusCode < http.StatusBadRequest:
		return retry.ClassFinal, 0
	}
	keyed := resp.Request != nil && (field(resp.Request.Header, wire.KeyHeader) != "" || field(resp.Request.Header, headerKeyX) != "")
	class, after, _, err := classify(resp, keyed, resp.Body != nil)
	if err != nil { // the body has ended too early
		return classOf(err)
	}
	return class, after
}

type keyOfPolicy struct{}

// WithPolicy returns a context whose requests use p instead of [Transport.Policy]. If one of the fields Budget, Breaker and Observe of p is nil,
// the same field of Transport.Policy is used.
func WithPolicy(ctx context.Context, p retry.Policy) context.Context {
	return context.WithValue(ctx, keyOfPolicy{}, &p)
}

func (t *Transport) policyOf(ctx context.Context) retry.Policy {
	given, ok := ctx.Value(keyOfPolicy{}).(*retry.Policy)
	if !ok {
		return t.Policy
	}
	p := *given
	if p.Budget == nil {
		p.Budget = t.Policy.Budget
	}
	if p.Breaker == nil {
		p.Breaker = t.Policy.Breaker
	}
	if p.Observe == nil {
		p.Observe = t.Policy.Observe
	}
	return p
}

type keyOfHint struct{}

// WithIdempotent returns a context whose requests may be repeated without a key, whatever their method is. Use WithIdempotent, for example, for a
// search by POST.
func WithIdempotent(ctx context.Context) context.Context {
	return context.WithValue(ctx, keyOfHint{}, true)
}

// hinted reports whether a request may be repeated without a key.
func hinted(req *http.Request) bool {
	return idempotent(req.Method) || declared(req.Header) || req.Context().Value(keyOfHint{}) != nil
}
