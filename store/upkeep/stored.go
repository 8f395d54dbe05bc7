package upkeep

import (
	"context"

	"github.com/oncelib/once/store"
)

// RecordSize is what an operation takes beside its answer, its request and its data, about, in bytes: its names, its columns and its indexes.
const RecordSize = 400

// Measurer tells how much scopes have stored. A store in an SQL database need not be one: a query asks it.
type Measurer interface {
	// Stored reads up to limit operations behind after, by scope and key in the order of their bytes, and adds up what each of their scopes
	// has among them. next is after of the next page, zero if there is none. A page begins where the page before has ended, also within a scope.
	// It reads lengths, and no answer where the database can tell the length without it.
	Stored(ctx context.Context, after store.ID, limit int) (list []Stored, next store.ID, err error)
}

// Stored is what a scope has stored.
type Stored struct {
	Scope string

	// Bytes are those of answers, requests and data, as they are stored and before the database compresses them, and [RecordSize] for each
	// operation. What has expired is not among them, swept or not.
	Bytes int64
}
