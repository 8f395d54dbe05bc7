package store

import (
	"context"
	"time"
)

// Waits are parts of the time that a Begin or a Read takes. The rest of it is the look-up.
type Waits struct {
	Acquire time.Duration // for a connection of the pool
	Lock    time.Duration // for locks of others; on SQLite, for the turn to write
}

type waitsKey struct{}

// WithWaits returns a context for Read, which adds to w what it has waited for. A Begin is told by
// [BeginOptions].Waits.
func WithWaits(ctx context.Context, w *Waits) context.Context {
	if w == nil {
		return ctx
	}
	return context.WithValue(ctx, waitsKey{}, w)
}

// WaitsOf returns the Waits that [WithWaits] has given to ctx, or nil.
func WaitsOf(ctx context.Context) *Waits {
	w, _ := ctx.Value(waitsKey{}).(*Waits)
	return w
}
