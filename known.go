package once

import (
	"context"

	"github.com/oncelib/once/store"
)

// Known reports whether op is done, so that it would be replayed and not executed (or
// be refused, if its fingerprint differs). That is one look-up, without a transaction,
// for who has to choose what to serve. False means that it is not done, or that the
// store has not answered: then nobody knows.
func (e *Engine[TX]) Known(ctx context.Context, op Operation) bool {
	if e.check(op) != nil {
		return false
	}
	rec, err := e.read(ctx, op, e.id(op))
	return err == nil && rec.State == store.Done
}
