package upkeep

import (
	"context"

	"github.com/oncelib/once/store"
)

// Writer applies a change in a transaction that the caller has opened and will end. Writer does not look up
// the operation first, so that a Write of pgxstore needs only one round trip.
type Writer[TX any] interface {
	// Write applies c in tx under the conditions of Swap: the change is committed with tx, or not at all. If
	// the record does not match c.Expect, the error is of the kind [store.KindTaken], the returned record is
	// the record that tx sees, and tx can be used further. After any error, tx contains nothing of c. Write
	// never returns [store.KindLost].
	Write(ctx context.Context, tx TX, c store.Change) (store.Record, error)
}
