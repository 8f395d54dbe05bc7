// Package upkeep is what a store offers for all of its operations together: to list them, to count them, and to delete
// those that have expired. All of it is optional, and found with [store.As].
package upkeep

import (
	"context"
	"time"

	prefixes "github.com/oncelib/once/internal/base/prefix"
	"github.com/oncelib/once/store"
)

// Lister lists operations that are running, waiting or unknown.
type Lister interface {
	// Unfinished reads a page of them, by scope and key in the order of their bytes, and lists those that it asks for,
	// without Data, Request and Result. It reads no more than page.Limit, and none that are done. next is Listing.After of the page
	// behind it, zero if there is none: a page may list fewer operations than its limit, or none, although others follow.
	// What is unfinished all the while is listed once.
	Unfinished(ctx context.Context, page Listing) (list []Entry, next store.ID, err error)
}

// Taker takes over operations that wait, many in one transaction.
type Taker interface {
	// Take makes those of ids that wait running, under a lease and with a nonce, and raises their fences. It returns them, without
	// Request and Result, and leaves out what another transaction has locked. then, in the dialect of the store, commits with it: it sees
	// what was taken as a table (scope, key), which it names once, as "taken t", and it has no arguments. An error of [store.KindLost]
	// means that some may have been taken.
	Take(ctx context.Context, ids []store.ID, nonce []byte, lease time.Duration, then store.Statement) ([]Entry, error)
}

// Entry is an operation and its record.
type Entry struct {
	store.ID
	store.Record
}

// Listing is a page of what a [Lister] lists.
type Listing struct {
	After store.ID // what the page before has returned as next; zero: the first page, unless WithPrefix has set it
	Limit int      // operations that the database reads at most, those that it leaves out among them

	// Due leaves out what an owner holds: the page has operations that wait or are unknown, and those whose lease is over.
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
