// Package atmostonce marks the contexts of calls. One mark means that the call must not be made twice. The second mark
// means that the call may have been made before. Packages lease and saga set the marks, package retryhttp obeys the first
// mark, and package gateway reads the second mark.
package atmostonce

import "context"

type key struct{}

// Mark returns a context that marks its requests to be sent at most once.
func Mark(ctx context.Context) context.Context { return context.WithValue(ctx, key{}, true) }

// Is reports whether a request with ctx must be sent at most once.
func Is(ctx context.Context) bool { return ctx.Value(key{}) != nil }

type againKey struct{}

// MarkAgain returns a context of a call that may have been made before under the same key.
func MarkAgain(ctx context.Context) context.Context { return context.WithValue(ctx, againKey{}, true) }

// IsAgain reports whether the call with ctx may have been made before under the same key.
func IsAgain(ctx context.Context) bool { return ctx.Value(againKey{}) != nil }
