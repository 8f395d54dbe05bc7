package upkeep

import (
	"context"
	"encoding/json"
	"time"

	"github.com/oncelib/once/store"
)

// Sweeper is a store that deletes finished
// operations whose retention is over by the store's own clock. They are absent to
// everybody already; sweeping gives their room back.
type Sweeper interface {
	// Sweep deletes up to s.Limit expired operations, oldest first, in one transaction, or
	// in several where each of them keeps all others from writing. Operations that are
	// running or unknown stay, however old. Rows that another transaction holds are left
	// for the next time: any number of nodes may sweep, and none of them waits for another,
	// nor for a request.
	//
	// With s.Archive the rows are read, handed to it, and deleted if they are still the
	// ones that it has seen. No row is locked meanwhile, so that no request waits for
	// what it does. Who is killed in between has deleted nothing, and the rows come
	// again: their Nonce tells that they are the same. Where the database can, one node at a time does this, and
	// another one finds nothing to do; on SQLite two that work at once keep rows twice.
	//
	// An error means that the rows are there, unless it is [store.KindLost]: then they may be gone,
	// and were kept.
	Sweep(ctx context.Context, s Sweep) (Swept, error)
}

// Sweep is what a [Sweeper] is asked for.
type Sweep struct {
	Limit int // rows at most, at least 1

	// After is a mark that an earlier Sweep has returned: rows that expired before it
	// are not looked for. It saves the database from walking over what is deleted and not
	// yet cleaned up. Zero: all rows are.
	After time.Time

	// Archive is called once with the rows that are about to be deleted, if there are any.
	// When it returns nil they must be safe. An error keeps them in the store. nil:
	// nothing is kept.
	Archive func(ctx context.Context, rows []Expired) error
}

// Swept is what a [Sweeper] has done.
type Swept struct {
	Rows int       // deleted
	More bool      // there may be more: ask again
	Mark time.Time // for Sweep.After

	// Held is for how long other transactions could not write, where a store knows that it was less
	// than the whole time. Zero: all of it.
	Held time.Duration
}

// Expired is an operation, or a row of another table, whose retention is over.
type Expired struct {
	store.ID
	store.Record
	At time.Time // when it was over

	// Table is where a row is from that is not an operation, such as "once_receipt". Such a row has an ID, by which it
	// is found, and no Record. "" is an operation.
	Table string

	// Row is that row: an object of JSON with all its columns. Bytes are in base64, and encrypted if they were.
	Row json.RawMessage
}
