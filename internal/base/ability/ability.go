// Package ability contains the optional abilities of stores. Only stores of this repository have them, and the
// engine finds them with store.As.
package ability

import "errors"

// DeadlockDetector is a store that can distinguish a deadlock from other errors of store.KindRetry. Metrics use it.
type DeadlockDetector interface {
	// IsDeadlock reports whether the database has ended a transaction because this transaction and another one waited
	// for each other.
	IsDeadlock(err error) bool
}

// Irrevocable is a store.Store whose Rollback does not undo the work of a handler, because the handler works in several
// transactions or calls other services. Rollback of its Transaction returns nil if nothing is committed and the operation
// is absent again. It returns an error of store.KindPartial if earlier steps are committed. It returns an error of
// store.KindUncertain if an external call was begun and its outcome is not known. A final failure is committed, and not
// rolled back. Commit itself settles a lost answer, if its time is long enough. The engine does not end a handler of such
// a store with the context of the caller.
type Irrevocable interface {
	Irrevocable()
}

// Counter is a store.Transaction that counts the statements of the user in the transaction.
type Counter interface {
	Statements() int
}

// Optimist is a store.Transaction that may delay its claim and its look-up (store.BeginOptions.Optimistic).
type Optimist interface {
	// IsOptimistic reports whether claim and look-up are delayed.
	IsOptimistic() bool
}

// Expiring is a store.Transaction that the store may end while the handler still uses it.
type Expiring interface {
	// Ended returns a channel that is closed after the store has ended the transaction. Then nothing of the transaction
	// was applied, and the operation can be claimed again. The finished phases of a leased operation stay committed. The
	// channel is nil if the store never ends the transaction.
	Ended() <-chan struct{}

	// OnEnd makes the store call f in a separate goroutine when the store has ended the claim. If the claim has already
	// ended, f is called at once. The returned function stop prevents the call, and reports whether f will not be called.
	OnEnd(f func()) (stop func() bool)
}

// Witness is a store.Transaction of work that can stay unfinished. It knows the states of its operation that the result of
// the transaction does not show. The states are strings of store.State; "" means not known.
type Witness interface {
	Found() (state string) // the state in which the transaction has found the operation
	Left() (state string)  // the state in which the transaction has left the operation, if it has not ended the operation
}

// ErrCheckable is in the chain of an error of store.KindUncertain if the called service can say whether the call took
// effect. The next caller asks this service.
var ErrCheckable = errors.New("the called service can be asked for the outcome")
