package store

import (
	"context"
	"time"
)

// Optional abilities of a store, found with [As].
type (
	// Classifier says what an error of one of the user's statements means for the operation.
	Classifier interface {
		Classify(err error) Kind
	}

	// Joiner is a store that works inside a transaction which the caller has opened and will end. If
	// BeginOptions.ID is zero, Join claims nothing. The method Commit of the returned Transaction writes its
	// Change, and leaves the caller's transaction open. The method Rollback of the returned Transaction
	// undoes the statements since Join, and the caller's transaction stays usable. Commit may be called after
	// Rollback; a Commit after Rollback writes only the record. In a Join neither Commit nor Rollback returns
	// a [KindLost] error.
	Joiner[TX any] interface {
		Join(ctx context.Context, tx TX, opts BeginOptions) (Transaction[TX], Record, error)
	}

	// CommitClaimer is a [Transaction] that may claim its operation only when it commits, because the database
	// has conditions, such as a primary key, but no lock that other transactions can test. DynamoDB is an
	// example of a database without locks that other transactions can test. Another example is a server that
	// speaks the protocol of PostgreSQL and accepts requests for advisory locks, but does not keep the locks.
	//
	// If ClaimsByCommit returns true, Begin looks up the record of the operation but excludes no other
	// transaction: several transactions of one operation may be open at the same time, in one process or in
	// many, and each of these transactions runs the user's handler. The first Commit of a transaction of the
	// operation claims the operation. Every later Commit of another transaction of the operation applies
	// nothing and returns [KindTaken] or [KindRetry]; a later Commit may wait for the end of the first
	// Commit. If ClaimsByCommit returns true, other callers never see the operation in flight.
	//
	// If a Commit of a CommitClaimer has returned [KindLost], and a later Begin finds the operation absent,
	// the Commit may still be applied: the server may receive the Commit later. So after KindLost an engine
	// runs the operation again, and the condition of the second Commit decides whether the second run is
	// applied. If the second run fails as well, the error says that the operation is in doubt. For a
	// CommitClaimer, an engine sets Change.StaleAfter of a Commit to BeginOptions.StaleAfter of its Begin:
	// between Begin and Commit another transaction may have finished the operation, and a sweeper (a job that
	// deletes expired records) may have deleted the record.
	//
	// With BeginOptions.Batch, a transaction that claims by its Commit does not have to look up anything in
	// Begin, and the method Tx of the transaction may return the zero value. After the time
	// BeginOptions.StaleAfter, the method Commit of the transaction returns [KindStale].
	CommitClaimer interface {
		ClaimsByCommit() bool
	}

	// Checker says whether the store can work: the database must be reachable, and must have the store's
	// tables. If the tables are missing, the error is [ErrNotMigrated]. Check writes nothing.
	Checker interface {
		Check(ctx context.Context) error
	}

	// Renewer extends leases and writes nothing else: no data, no request, no index.
	Renewer interface {
		// Renew sets the end of the leases of holds to the store's clock + lease, and returns the holds that
		// Renew has renewed. Renew also renews a lease that is over, if no other owner has taken over the
		// operation. A hold (the claim of an owner) that Renew does not return is no longer valid. After an
		// error, each of the holds may have been renewed or not. If the parameter lease is 0, the leases
		// never end.
		Renew(ctx context.Context, holds []Hold, lease time.Duration) (renewed []Hold, err error)
	}
)

// As finds the ability A in s, or in a store that s wraps. A decorator (a store that wraps another store)
// hides the optional interfaces of the wrapped store, unless the decorator has a method Unwrap() any.
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
