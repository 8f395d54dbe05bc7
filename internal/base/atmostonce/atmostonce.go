// Package atmostonce marks the context of a call that must not be made twice. Package lease marks
// it, package retryhttp obeys.
package atmostonce

import "context"

type key struct{}

// Mark returns a context that marks its requests to be sent at most once.
func Mark(ctx context.Context) context.Context { return context.WithValue(ctx, key{}, true) }

// Is reports whether a request with ctx must be sent at most once.
func Is(ctx context.Context) bool { return ctx.Value(key{}) != nil }
