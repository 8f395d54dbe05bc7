package store

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"
)

// Optional abilities of a store, found with [As].
type (
	// Classifier says what an error of one of the user's statements means.
	Classifier interface {
		Classify(err error) Kind
	}

	// DeadlockDetector tells a deadlock from other errors of [KindRetry], for those who count them.
	DeadlockDetector interface {
		// IsDeadlock reports whether the database has ended a transaction because it and
		// another one waited for each other.
		IsDeadlock(err error) bool
	}

	// Joiner works inside a transaction that the caller has opened and will end.
	// With a zero BeginOptions.ID it claims nothing. The Claim's Commit writes its Change but does not commit. Its Rollback undoes
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

	// Renewer extends leases without writing anything else: no data, no request, no index.
	Renewer interface {
		// Renew lets the leases of holds lapse at the store's clock + lease, also those that are
		// over and were not taken over, and returns those that it has renewed. The others are no
		// longer held. An error means that any of them may have been renewed. A lease of 0 never lapses.
		Renew(ctx context.Context, holds []Hold, lease time.Duration) (renewed []Hold, err error)
	}

	// Lister lists operations that are running, waiting or unknown.
	Lister interface {
		// Unfinished returns a page of them by scope and key in the order of
		// their bytes, without Data, Request and Result. It does not read through
		// those that are done (on MySQL it does read those that are kept for ever). What is unfinished all the while is listed once.
		Unfinished(ctx context.Context, page Listing) ([]Entry, error)
	}

	// Backlogger counts operations that are unfinished or expired. That is cheap enough for a metric: it reads
	// no operation that is done and kept (on MySQL it does read those that are kept for ever).
	Backlogger interface {
		Backlog(ctx context.Context) (Backlog, error)
	}

	// Pooled counts the connections of its pool. It asks only the pool, so that it also tells when none is free.
	Pooled interface {
		Connections() Connections
	}

	// Irrevocable is a Store whose Rollback does not undo what a handler has done, because it
	// works in several transactions or calls other services. Its Claim's Rollback returns nil if nothing
	// stands and the operation is absent again, an error of [KindPartial] if earlier steps stand, and
	// one of [KindUncertain] if an external call was begun whose outcome is not known. A final failure is
	// committed, and not rolled back. Commit settles a lost answer itself, as far as that can be done in its time. The engine
	// does not end a handler with its caller's context.
	Irrevocable interface {
		Irrevocable()
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

		// OnEnd has f called, in a goroutine of its own, when that has been done, or at once
		// if it was. stop ends that, and reports whether f will not be called.
		OnEnd(f func()) (stop func() bool)
	}
)

// Entry is an operation and its record.
type Entry struct {
	ID
	Record
}

// Listing is a page of what a [Lister] lists.
type Listing struct {
	After ID  // the last operation of the page before; zero: the first page, unless WithPrefix has set it
	Limit int // operations at most

	// Due leaves out what an owner holds: the page has operations that wait or are unknown, and those whose lease is over.
	// All others are read by the database, and not sent.
	Due bool

	// Name leaves out operations of other names. "": all names.
	Name string

	// Before leaves out scopes that do not come before this one in the order of their bytes. "": no such bound.
	Before string
}

// WithPrefix returns l for the operations in scopes that begin with prefix, from the first page on. The database reads no others.
func (l Listing) WithPrefix(prefix string) Listing {
	l.After, l.Before = ID{Scope: prefix}, AfterPrefix(prefix)
	return l
}

// AfterPrefix returns the first text behind all that begin with prefix, in the order of their bytes; "" if there is none.
func AfterPrefix(prefix string) string {
	prefix = strings.ToValidUTF8(prefix, "")
	for prefix != "" {
		r, size := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-size]
		switch r {
		case utf8.MaxRune:
			continue
		case 0xD7FF: // behind it come the surrogates, which are no characters
			r = 0xDFFF
		}
		return prefix + string(r+1)
	}
	return ""
}

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
