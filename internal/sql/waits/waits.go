// Package waits carries where a Read adds what it has waited for. Begin has a field for that, store.BeginOptions.Waits.
package waits

import (
	"context"

	"github.com/oncelib/once/store"
)

type key struct{}

// With returns a context for a Read, which adds to w what it has waited for.
func With(ctx context.Context, w *store.Waits) context.Context {
	if w == nil {
		return ctx
	}
	return context.WithValue(ctx, key{}, w)
}

// Of returns the Waits that [With] has given to ctx, or nil.
func Of(ctx context.Context) *store.Waits {
	w, _ := ctx.Value(key{}).(*store.Waits)
	return w
}
