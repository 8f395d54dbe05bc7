package once

import (
	"context"
	"time"

	"github.com/oncelib/once/store"
)

// Known reports whether op is done, so that it would be replayed and not executed (or
// be refused, if its fingerprint differs). That is one look-up, without a transaction,
// for who has to choose what to serve; none if Config.Cache has it. False means that it is not done, or that the
// store has not answered: then nobody knows.
func (e *Engine[TX]) Known(ctx context.Context, op Operation) bool {
	if e.check(op) != nil {
		return false
	}
	id := e.id(op)
	if _, ok := e.cache.get(id, time.Now()); ok {
		return true
	}
	rec, err := e.read(ctx, op, id)
	return err == nil && rec.State == store.Done
}

// Cached reports whether Config.Cache has the result of op, so that it would be replayed (or be
// refused, if its fingerprint differs) without the store.
func (e *Engine[TX]) Cached(op Operation) bool {
	if e.check(op) != nil {
		return false
	}
	_, ok := e.cache.get(e.id(op), time.Now())
	return ok
}
