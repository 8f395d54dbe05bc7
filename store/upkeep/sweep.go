package upkeep

import (
	"context"
	"encoding/json"
	"time"

	"github.com/oncelib/once/store"
)

// Sweeper is a store that deletes finished
// operations whose retention is over by the store's own clock. For every
// call they are absent already; sweeping frees their space.
type Sweeper interface {
	// Sweep deletes up to s.Limit expired operations, oldest first, in one transaction, or
	// in several where each of them keeps all others from writing. Operations that are
	// running or unknown stay, however old. Rows that another transaction holds are left
	// for the next time: any number of nodes may sweep, and none of them waits for another,
	// nor for a request.
	//
	// With s.Archive the rows are read, passed to it, and deleted if they have not
	// changed since. No row is locked meanwhile, so that no request waits for
	// the archive. A process that is killed in between has deleted nothing, and the rows come
	// again: the same Nonce shows that they are the same. Where the database can, one node at a time does this, and
	// another node finds nothing to do; on SQLite two nodes that work at the same time archive rows twice.
	//
	// An error means that the rows are still there, unless it is [store.KindLost]: then they may be deleted,
	// and were archived.
	Sweep(ctx context.Context, s Sweep) (Swept, error)
}

// Sweep is a request to a [Sweeper].
type Sweep struct {
	Limit int // rows at most, at least 1

	// After is a mark that an earlier Sweep has returned: rows that expired before it
	// are not looked for. It saves the database from walking over rows that are deleted and not
	// yet cleaned up. Zero: all rows are looked for.
	After time.Time

	// Archive is called once with the rows that are about to be deleted, unless there are no such rows.
	// When it returns nil they must be safe. An error keeps them in the store. nil:
	// rows are deleted without a copy.
	Archive func(ctx context.Context, rows []Expired) error
}

// Swept is the result of a [Sweeper].
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

	// Table is the table of a row that is not an operation, such as "once_receipt". Such a row has an ID, by which it
	// is found, and no Record. "" means an operation.
	Table string

	// Row is that row: an object of JSON with all its columns. Bytes are in base64, and encrypted if they were.
	Row json.RawMessage
}
