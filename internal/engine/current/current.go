// Package current contains the operation of a context, for packages that write in the same transaction. For example, an outbox
// adds its events to the operation.
package current

import (
	"context"
	"sync"

	"github.com/oncelib/once/store"
)

// MaxEvents is how many events a record names. Further events are delivered as well.
const MaxEvents = 64

// Operation is an operation whose handler runs now.
type Operation struct {
	ID store.ID // the ID in the store; zero: the operation has no key

	mu     sync.Mutex
	events []string
}

// Note adds the IDs of events that commit with the operation.
func (o *Operation) Note(ids ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(o.events, ids[:min(len(ids), MaxEvents-len(o.events))]...)
}

// Events returns the first [MaxEvents] IDs that were added.
func (o *Operation) Events() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.events
}

// Key is the key of the context value, which is a *[Operation].
type Key struct{}

// With returns a context for the handler of o.
func With(ctx context.Context, o *Operation) context.Context {
	return context.WithValue(ctx, Key{}, o)
}

// Of returns the operation of ctx, or nil if the operation has no key.
func Of(ctx context.Context) *Operation {
	if o, _ := ctx.Value(Key{}).(*Operation); o != nil && !o.ID.IsZero() {
		return o
	}
	return nil
}

// Bind makes o the operation of b, which is a *once.Batch. Package once sets Bind.
var Bind func(b any, o *Operation)

// OfBatch returns the operation of b, which is a *once.Batch, or nil if the operation has no key. Package once sets OfBatch.
var OfBatch func(b any) *Operation
