package retryhttp

import (
	"context"
	"net/http"
	"time"

	"github.com/oncelib/once/internal/base/wire"
	"github.com/oncelib/once/retry"
)

// NewClient returns a client that retries as t says. A nil t means the zero [Transport]. It has no Timeout: a Timeout would bound all attempts of a
// call together, as the context of a request already can, while [retry.Policy] has one for each attempt and one for all.
func NewClient(t *Transport) *http.Client {
	if t == nil {
		t = new(Transport)
	}
	return &http.Client{Transport: t}
}

// Classify returns the class of the outcome of a request, and how long the server wants no further attempt, as [Transport] sees it: for clients that
// retry by themselves. A success is [retry.ClassFinal]. The body of resp can be read afterwards as before. Of resp.Request only the idempotency key
// matters.
func Classify(resp *http.Response, err error) (retry.Class, time.Duration) {
	switch {
	case err != nil:
		return classOf(err)
	case resp == nil || resp.StatusCode < http.StatusBadRequest:
		return retry.ClassFinal, 0
	}
	keyed := resp.Request != nil && (field(resp.Request.Header, wire.KeyHeader) != "" || field(resp.Request.Header, headerKeyX) != "")
	class, after, _, err := classify(resp, keyed, resp.Body != nil)
	if err != nil { // the body breaks off
		return classOf(err)
	}
	return class, after
}

type keyOfPolicy struct{}

// WithPolicy returns a context whose requests use p instead of [Transport.Policy]. An empty Budget, Breaker or Observe of p is taken from the
// transport's policy.
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

// WithIdempotent returns a context whose requests can be repeated whatever their method is, for example a search by POST. They need no key.
func WithIdempotent(ctx context.Context) context.Context {
	return context.WithValue(ctx, keyOfHint{}, true)
}

// hinted reports whether a request can be repeated without a key.
func hinted(req *http.Request) bool {
	return idempotent(req.Method) || declared(req.Header) || req.Context().Value(keyOfHint{}) != nil
}
