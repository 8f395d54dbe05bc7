package upkeep

import (
	"context"

	"github.com/oncelib/once/store"
)

// Writer makes a change in a transaction that the caller has opened and will end. It looks nothing up before, so that
// pgxstore needs one round trip.
type Writer[TX any] interface {
	// Write applies c in tx as Swap would: the change is committed with tx, or not at all. If the record is not as c expects,
	// the error is of [store.KindTaken], the record is returned as tx sees it, and tx can go on. After any error nothing of c is
	// in tx. No error is [store.KindLost].
	Write(ctx context.Context, tx TX, c store.Change) (store.Record, error)
}
