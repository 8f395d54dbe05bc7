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
	// With a zero BeginOptions.ID it claims nothing. The Transaction's Commit writes its Change but does not commit. Its Rollback undoes
	// the statements since Join and leaves the caller's transaction usable; Commit
	// may follow it and then writes the record alone. No error of either is [KindLost].
	Joiner[TX any] interface {
		Join(ctx context.Context, tx TX, opts BeginOptions) (Transaction[TX], Record, error)
	}

	// CommitClaimer is a [Transaction] whose operation may be claimed by its Commit only, because the
	// database has conditions, such as a primary key, and no lock that others can try.
	// Examples are DynamoDB, and a server that accepts advisory locks and keeps none.
	//
	// Where ClaimsByCommit returns true, Begin looks the record up and excludes no other transaction: several
	// of one operation may be open at a time, in one process or in many, and each runs the user's
	// handler. The first Commit claims the operation. Every other one applies nothing and returns
	// [KindTaken], or [KindRetry]; it may wait for the first one's end. Other calls never see such an operation in flight.
	//
	// "Absent, and Begin grants it" proves nothing about a Commit that was [KindLost]: it may still
	// be on its way. So an engine runs the operation again, and the condition of that Commit decides. If the second
	// run fails as well, the error says that the operation is in doubt. An engine gives such a Commit the
	// Change.StaleAfter of its Begin: until then another transaction may have finished the operation, and its record may have been swept.
	//
	// A transaction for BeginOptions.Batch that claims by its Commit need not have looked up anything, and its Tx
	// may be the zero value. Its Commit returns [KindStale] after BeginOptions.StaleAfter.
	CommitClaimer interface {
		ClaimsByCommit() bool
	}

	// Checker says whether the store can work at all: that it is reached, and has its
	// tables (otherwise [ErrNotMigrated]). It writes nothing.
	Checker interface {
		Check(ctx context.Context) error
	}

	// Renewer extends leases without writing anything else: no data, no request, no index.
	Renewer interface {
		// Renew sets the leases of holds to the store's clock + lease, also leases that have
		// ended but whose operations were not taken over, and returns the holds that it has renewed. The others are no
		// longer held. An error means that any of them may have been renewed. A lease of 0 never lapses.
		Renew(ctx context.Context, holds []Hold, lease time.Duration) (renewed []Hold, err error)
	}
)

// As finds ability A in s or in a store that s wraps: decorators hide the optional
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
