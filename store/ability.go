package store

import (
	"context"
	"time"
)

// Optional abilities of a store, found with [As].
type (
	// Classifier says what an error of one of the user's statements means.
	Classifier interface {
		Classify(err error) Kind
	}

	// Joiner works inside a transaction that the caller has opened and will end.
	// The Claim's Commit writes the record but does not commit. Its Rollback undoes
	// what was done since Join and leaves the caller's transaction usable; Commit
	// may follow it and then writes the record alone. No error of either is [KindLost].
	Joiner[TX any] interface {
		Join(ctx context.Context, tx TX, opts BeginOptions) (Claim[TX], Record, error)
	}

	// Checker says whether the store can work at all: that it is reached, and has its
	// tables (otherwise [ErrNotMigrated]). It writes nothing.
	Checker interface {
		Check(ctx context.Context) error
	}

	// AttemptLog keeps attempts, apart from the transactions of operations.
	AttemptLog interface {
		// WriteAttempts writes list. One that is there already, by its ID, stays as it
		// is: after an error, which may be a lost answer, the same list can be written
		// again.
		WriteAttempts(ctx context.Context, list []Attempt) error

		// SweepAttempts deletes attempts that are older than keep by the store's clock,
		// the oldest first and at most limit, and returns how many it has deleted.
		SweepAttempts(ctx context.Context, keep time.Duration, limit int) (int, error)
	}
)

// Optional abilities of a transaction, found by assertion on the value that
// Claim.Tx returns.
type (
	// Appender can send a write together with the commit instead of at once. The
	// write belongs to the savepoint that is open when it is appended.
	Appender interface {
		Append(s Statement)
	}
)

// Optional abilities of a [Claim], found with [As].
type (
	// Counter knows how many statements the user has run in the transaction.
	Counter interface {
		Statements() int
	}

	// Deferred is a Claim for BeginOptions.Batch that has claimed nothing yet and looked nothing
	// up. Its Tx is not there. Its Commit claims, without waiting; its error is [KindTaken] if
	// a record or a claim is in the way, and [KindStale] after BeginOptions.StaleAfter. When one was [KindLost],
	// that the operation is absent and can be claimed does not prove that it stays so.
	Deferred interface {
		Deferred()
	}

	// Expiring is a Claim that may be ended by its store while the handler still has it.
	Expiring interface {
		// Ended returns a channel that is closed when that has been done: nothing was
		// applied, and nobody holds the claim any more. It is nil if it is never done.
		Ended() <-chan struct{}
	}
)

// As finds ability A in s or in what s wraps: decorators hide the optional
// interfaces of the store below them unless they have an Unwrap() any method.
func As[A any](s any) (a A, ok bool) {
	for s != nil {
		if a, ok = s.(A); ok {
			return a, true
		}
		w, wraps := s.(interface{ Unwrap() any })
		if !wraps {
			break
		}
		s = w.Unwrap()
	}
	return a, false
}
