// Package upkeep has the abilities of a store for all of its operations together: to list them, to count them, and to delete
// the expired ones. All of them are optional, and found with [store.As].
package upkeep

import (
	"context"
	"time"

	prefixes "github.com/oncelib/once/internal/base/prefix"
	"github.com/oncelib/once/store"
)

// Lister lists operations that are running, waiting or unknown.
type Lister interface {
	// Unfinished reads a page of them, by scope and key in the order of their bytes, and lists the ones that match,
	// without Data, Request and Result. It reads no more than page.Limit, and no finished operation. next is Listing.After of the
	// following page, zero after the last page: a page may list fewer operations than its limit, or none, although others follow.
	// An operation that stays unfinished all the while is listed once.
	Unfinished(ctx context.Context, page Listing) (list []Entry, next store.ID, err error)
}

// Taker takes over operations that wait, many in one transaction.
type Taker interface {
	// Take makes the waiting operations among ids running, under a lease and with a nonce, and raises their fences. It returns them, without
	// Request and Result, and leaves out operations that another transaction has locked. then, in the dialect of the store, commits with it: it sees
	// the taken operations as a table (scope, key), which it names once, as "taken t", and it has no arguments. An error of [store.KindLost]
	// means that some may have been taken.
	Take(ctx context.Context, ids []store.ID, nonce []byte, lease time.Duration, then store.Statement) ([]Entry, error)
}

// Entry is an operation and its record.
type Entry struct {
	store.ID
	store.Record
}

// Listing selects a page for a [Lister].
type Listing struct {
	After store.ID // the next that the page before has returned; zero: the first page, unless WithPrefix has set it
	Limit int      // operations that the database reads at most, including those it leaves out

	// Due leaves out operations that an owner holds: the page has operations that wait or are unknown, or whose lease is over.
	Due bool

	// State leaves out operations in other states. [store.StateAbsent]: all states.
	State store.State

	// Name leaves out operations of other names. "": all names.
	Name string

	// Before leaves out scopes that do not come before this one in the order of their bytes. "": no such bound.
	Before string
}

// WithPrefix returns l for the operations in scopes that begin with prefix, from the first page on. The database reads no others.
func (l Listing) WithPrefix(prefix string) Listing {
	l.After, l.Before = store.ID{Scope: prefix}, prefixes.After(prefix)
	return l
}
