package upkeep

import (
	"context"
	"encoding/json"
	"time"

	"github.com/oncelib/once/store"
)

// Sweeper is a store that deletes finished operations whose retention is over by the store's own clock. Every
// method of the store treats an expired operation as absent even before its row is deleted; Sweep only frees
// the space.
type Sweeper interface {
	// Sweep deletes up to s.Limit expired operations, the oldest first. Sweep uses one transaction, or several
	// short transactions on a database where a writing transaction blocks all other writers. Sweep never
	// deletes operations that are running or unknown, however old they are. Sweep skips rows that another
	// transaction has locked: a later Sweep deletes the skipped rows. So any number of nodes may sweep at the
	// same time, and a Sweep waits neither for another Sweep nor for a request.
	//
	// With s.Archive, Sweep reads the rows, passes them to s.Archive, and then deletes each row that has not changed since it
	// was read. Sweep holds no lock while s.Archive runs, so that no request waits for the archive. If the process is killed
	// while s.Archive runs, nothing was deleted, and a later Sweep passes the rows to its Archive again, with the same Nonce
	// as before. If the database has a suitable lock, only one node at a time sweeps with an archive, and a Sweep of another
	// node at the same time deletes nothing. On SQLite, two nodes that sweep at the same time archive rows twice. If rows are
	// large, Sweep may archive and delete fewer rows than s.Limit, although more expired rows exist, so that the rows in
	// memory stay bounded.
	//
	// After an error of Sweep the rows still exist, unless the error has the kind [store.KindLost]: after a KindLost
	// error the rows were archived, and may be deleted.
	Sweep(ctx context.Context, s Sweep) (Swept, error)
}

// Sweep is a request to a [Sweeper].
type Sweep struct {
	Limit int // how many rows to delete at most; at least 1

	// After is the Swept.Mark of an earlier Sweep: Sweep does not look for rows that expired before the time
	// After. With After, the database does not scan rows that were deleted earlier and that the database has
	// not cleaned up yet (vacuum). If After is zero, Sweep looks for all expired rows.
	After time.Time

	// If rows are expired, Sweep calls Archive one time, with all rows that Sweep is about to delete.
	// Archive returns nil after it has saved the rows safely. If Archive returns an error, the rows stay in
	// the store. If Archive is nil, rows are deleted without a copy.
	Archive func(ctx context.Context, rows []Expired) error
}

// Swept is the result of a [Sweeper].
type Swept struct {
	Rows int       // how many rows were deleted
	More bool      // there may be more expired rows: call Sweep again
	Mark time.Time // the value for Sweep.After of the next Sweep

	// Held is how long Sweep has prevented other transactions from writing. The store sets Held only if the
	// store knows that Held is shorter than the duration of the whole Sweep. If Held is zero, the whole
	// duration of the Sweep counts.
	Held time.Duration
}

// Expired is an operation, or a row of another table, whose retention is over.
type Expired struct {
	store.ID
	store.Record
	At time.Time // when the retention was over

	// Table is the table of a row that is not an operation, such as "once_receipt". If Table is set, the Expired has an ID,
	// which identifies the row, and a Row, but no Record. If Table is "", the Expired is an operation.
	Table string

	// Row is the row of Table as a JSON object with all its columns. Bytes are in base64; columns that are
	// stored encrypted stay encrypted.
	Row json.RawMessage
}
