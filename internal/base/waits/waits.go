// Package waits measures the waiting times of a Begin or a Read of a store, for metrics.
package waits

import (
	"context"
	"time"
)

// Waits contains the waiting times of a Begin or a Read. The rest of its time is the look-up.
type Waits struct {
	Acquire time.Duration // the wait for a connection of the pool
	Lock    time.Duration // the wait for locks of other transactions; on SQLite, for the other writers of the file
}

type key struct{}

// With returns a context for a Read, which adds its waiting times to w. Begin has a field for the same purpose.
func With(ctx context.Context, w *Waits) context.Context {
	if w == nil {
		return ctx
	}
	return context.WithValue(ctx, key{}, w)
}

// Of returns the Waits of ctx, or nil.
func Of(ctx context.Context) *Waits {
	w, _ := ctx.Value(key{}).(*Waits)
	return w
}
