package retryhttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/internal/base/wire"
)

// Key is the idempotency key of one intent (work that must be done once).
type Key struct {
	Value string

	// Since is the time at which the key was first sent. Set Since if an earlier process may have sent the key, for example if the key was read from
	// a database. If Since is zero, the Transport assumes that the key was never sent before.
	Since time.Time
}

// WithKey returns a context whose requests get the key k. Requests that already have a key, and requests with a safe method such as GET, do not get
// the key k. All requests with the returned context have the same key, and so belong to the same operation; make a new context for each operation.
func WithKey(ctx context.Context, k Key) context.Context {
	return context.WithValue(ctx, keyOfContext{}, k)
}

type keyOfContext struct{}

// These are names of headers, in the form of [http.Header]. Package wire has the names of the other headers.
const (
	headerKeyX    = "X-Idempotency-Key"
	headerHint    = "Stripe-Should-Retry"
	headerAfter   = "Retry-After"
	headerAfterMs = "Retry-After-Ms"
)

// field returns the first value of a header, like h.Get. The name must have the canonical spelling.
func field(h http.Header, name string) string {
	if lines := h[name]; len(lines) > 0 {
		return lines[0]
	}
	return ""
}

// declared reports whether h has the header of an idempotency key without a value. For net/http this means that the request may be repeated without a
// key.
func declared(h http.Header) bool {
	for _, name := range [...]string{wire.KeyHeader, headerKeyX} {
		if lines, ok := h[name]; ok && len(lines) == 0 {
			return true
		}
	}
	return false
}

// keyOf returns the key of req. The result in is the name of the header that already contains the key. The result made says that the Transport has
// made the key, so that no other process knows it.
func (t *Transport) keyOf(req *http.Request) (k Key, in string, made bool, err error) {
	k, given := req.Context().Value(keyOfContext{}).(Key)
	if given && k.Value == "" {
		return k, "", false, errors.New("retryhttp: the key that was passed to WithKey is empty. Try: once.NewKey()")
	}
	for _, name := range [...]string{wire.KeyHeader, headerKeyX} {
		switch value := field(req.Header, name); {
		case value == "":
		case given && value != k.Value && value != wire.QuoteKey(k.Value):
			return k, "", false, errors.New("retryhttp: the request has two different keys, one in its header and one in its context. Try: a separate context for each intent")
		default:
			return Key{value, k.Since}, name, false, nil
		}
	}
	switch {
	case safe(req.Method), !given && declared(req.Header):
		return Key{}, "", false, nil
	case given:
	case req.Response != nil && req.Response.Request != nil && field(req.Response.Request.Header, wire.KeyHeader) != "":
		return Key{Value: field(req.Response.Request.Header, wire.KeyHeader)}, "", true, nil // the request follows a redirect, and keeps the key of the first request
	case t.Keys && !hinted(req):
		k.Value, made = keyname.New(), true
	default:
		return Key{}, "", false, nil
	}
	if err := keyname.Check(k.Value); err != nil {
		return k, "", false, fmt.Errorf("retryhttp: %w", err)
	}
	if strings.ContainsFunc(k.Value, func(c rune) bool { return c > 0x7e }) {
		return k, "", false, errors.New("retryhttp: the key has characters that are not ASCII, and an HTTP header cannot contain them. Try: a key from once.NewKey or once.DeriveKey")
	}
	if t.Dialect.Quoted || wire.NeedsQuotes(k.Value) {
		k.Value = wire.QuoteKey(k.Value)
	}
	return k, "", made, nil
}

// safe reports whether requests with this method only read.
func safe(method string) bool {
	switch method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, "QUERY":
		return true
	}
	return false
}

// idempotent reports whether requests with this method may be repeated without a key.
func idempotent(method string) bool {
	return safe(method) || method == http.MethodPut || method == http.MethodDelete
}
