// Package upkeep defines the abilities of a store that concern all of its operations: to list operations, to
// count operations, and to delete expired operations. Each ability is optional; a program finds an ability
// with [store.As].
package upkeep

import (
	"context"
	"time"

	prefixes "github.com/oncelib/once/internal/base/prefix"
	"github.com/oncelib/once/store"
)

// Lister lists operations that are running, waiting or unknown.
type Lister interface {
	// Unfinished reads one page of operations, ordered by the bytes of scope and key. Unfinished returns the
	// operations that match page, without Data, Request and Result. Unfinished reads at most page.Limit
	// operations, and reads no operations that are done. To read the following page, pass the result next as
	// Listing.After; next is zero after the last page. A page may contain fewer operations than its limit, or
	// no operations, although more pages follow. An operation that stays unfinished during the whole listing
	// is returned exactly once.
	Unfinished(ctx context.Context, page Listing) (list []Entry, next store.ID, err error)
}

// Taker takes over waiting operations, many in one transaction.
type Taker interface {
	// Take changes the state of each waiting operation in ids to running: Take gives the operation a lease
	// and the nonce, and increases the fence (a number that grows with every write of an owner). Take returns
	// the taken operations without Request and Result. Take leaves out operations that another transaction
	// has locked. The parameter named then is a statement in the SQL dialect of the store; Take runs the
	// statement in the same transaction. The statement has no arguments, and must contain the two words "taken t" exactly
	// one time: a table with the name taken and the alias t. Its columns are the scope and the key of the taken operations. After an
	// error of the kind [store.KindLost], some operations may have been taken.
	Take(ctx context.Context, ids []store.ID, nonce []byte, lease time.Duration, then store.Statement) ([]Entry, error)
}

// Entry is an operation and its record.
type Entry struct {
	store.ID
	store.Record
}

// Listing selects a page for a [Lister].
type Listing struct {
	After store.ID // the result next of the call for the previous page; zero means the first page, unless WithPrefix has set After
	Limit int      // how many operations the database reads at most, including operations that do not match

	// Due restricts the page to operations without an active owner: operations that wait, operations whose
	// outcome is unknown, and operations whose lease is over.
	Due bool

	// State restricts the page to operations whose state is State. [store.StateAbsent] means all states.
	State store.State

	// Name restricts the page to operations whose name is Name. "" means all names.
	Name string

	// Before restricts the page to scopes that sort before the scope Before, by their bytes. "" means all
	// scopes.
	Before string
}

// WithPrefix returns l restricted to scopes that begin with prefix, from the first page on. The database reads
// only scopes that begin with prefix.
func (l Listing) WithPrefix(prefix string) Listing {
	l.After, l.Before = store.ID{Scope: prefix}, prefixes.After(prefix)
	return l
}
