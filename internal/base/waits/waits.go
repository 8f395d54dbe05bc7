// Package waits has the parts of the time that a Begin or a Read of a store takes, for metrics.
package waits

import (
	"context"
	"time"
)

// Waits are the waiting times of a Begin or a Read. The rest of its time is the look-up.
type Waits struct {
	Acquire time.Duration // for a connection of the pool
	Lock    time.Duration // for locks of others; on SQLite, for the turn to write
}

type key struct{}

// With returns a context for a Read, which adds its waiting times to w. Begin has a field for that.
func With(ctx context.Context, w *Waits) context.Context {
	if w == nil {
		return ctx
	}
	return context.WithValue(ctx, key{}, w)
}

// Of returns the Waits that [With] has given to ctx, or nil.
func Of(ctx context.Context) *Waits {
	w, _ := ctx.Value(key{}).(*Waits)
	return w
}
