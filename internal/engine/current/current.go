// Package current has the operation that a context belongs to, for packages that write in the same transaction: an outbox notes its events there.
package current

import (
	"context"
	"sync"

	"github.com/oncelib/once/store"
)

// MaxEvents is how many events a record names. The others are delivered as well.
const MaxEvents = 64

// Operation is an operation whose handler runs.
type Operation struct {
	ID store.ID // as it is stored; zero: it has no key

	mu     sync.Mutex
	events []string
}

// Note notes the IDs of events that commit with the operation.
func (o *Operation) Note(ids ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(o.events, ids[:min(len(ids), MaxEvents-len(o.events))]...)
}

// Events returns the first [MaxEvents] IDs that were noted.
func (o *Operation) Events() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.events
}

// Key is that of the context value, a *[Operation].
type Key struct{}

// With returns a context in which o runs.
func With(ctx context.Context, o *Operation) context.Context {
	return context.WithValue(ctx, Key{}, o)
}

// Of returns the operation that ctx belongs to, nil if it has no key.
func Of(ctx context.Context) *Operation {
	if o, _ := ctx.Value(Key{}).(*Operation); o != nil && !o.ID.IsZero() {
		return o
	}
	return nil
}

// Bind has the operation of b, a *once.Batch, be o. Package once sets it.
var Bind func(b any, o *Operation)

// OfBatch returns the operation of b, a *once.Batch; nil if it has no key. Package once sets it.
var OfBatch func(b any) *Operation
