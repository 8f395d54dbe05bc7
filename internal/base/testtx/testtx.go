// Package testtx carries the transaction of a test in a context, for handlers that get their transaction from a middleware.
package testtx

import "context"

type key struct{}

// With returns a context with the transaction tx.
func With(ctx context.Context, tx any) context.Context { return context.WithValue(ctx, key{}, tx) }

// Of returns the transaction of a test, or nil if ctx has none.
func Of(ctx context.Context) any { return ctx.Value(key{}) }
