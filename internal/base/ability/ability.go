// Package ability has the optional abilities that only stores of this repository have. The engine
// finds them with store.As.
package ability

import "errors"

// DeadlockDetector is a store that distinguishes a deadlock from other errors of store.KindRetry, for metrics.
type DeadlockDetector interface {
	// IsDeadlock reports whether the database has ended a transaction because it and
	// another one waited for each other.
	IsDeadlock(err error) bool
}

// Irrevocable is a store.Store whose Rollback does not undo the work of a handler, because the handler
// works in several transactions or calls other services. Its Transaction's Rollback returns nil if nothing
// is committed and the operation is absent again, an error of store.KindPartial if earlier steps are committed, and
// one of store.KindUncertain if an external call was begun and its outcome is not known. A final failure is
// committed, and not rolled back. Commit settles a lost answer itself, as far as its time allows. The engine
// does not end a handler with its caller's context.
type Irrevocable interface {
	Irrevocable()
}

// Counter is a store.Transaction that knows how many statements the user has run in the transaction.
type Counter interface {
	Statements() int
}

// Optimist is a store.Transaction that may delay its claim and its look-up (store.BeginOptions.Optimistic).
type Optimist interface {
	// IsOptimistic reports whether claim and look-up are delayed.
	IsOptimistic() bool
}

// Expiring is a store.Transaction that may be ended by its store while the handler still has it.
type Expiring interface {
	// Ended returns a channel that is closed when the store has ended the transaction: nothing of it was
	// applied, and the operation can be claimed again (the finished phases of a leased operation stay committed). It is nil if the store never does.
	Ended() <-chan struct{}

	// OnEnd has f called, in a goroutine of its own, when the store has ended the claim, or at once
	// if it has done so already. stop ends that, and reports whether f will not be called.
	OnEnd(f func()) (stop func() bool)
}

// ErrCheckable is in the chain of an error of store.KindUncertain if the called service can be asked whether the call took effect: the
// next caller asks.
var ErrCheckable = errors.New("the called service can be asked")
