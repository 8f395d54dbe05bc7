package upkeep

import (
	"context"

	"github.com/oncelib/once/store"
)

// RecordSize is about how many bytes an operation takes besides its answer, its request and its data: its names, its columns and its indexes.
const RecordSize = 400

// Measurer reports how many bytes scopes have stored. A store in an SQL database need not be one: a query asks it.
type Measurer interface {
	// Stored reads up to limit operations after the given one, by scope and key in the order of their bytes, and adds up the bytes of each
	// scope among them. next is the after of the next page, zero after the last one. A page begins where the page before has ended, also within a scope.
	// Stored reads lengths, and no answer where the database knows the length without it.
	Stored(ctx context.Context, after store.ID, limit int) (list []Stored, next store.ID, err error)
}

// Stored is the size of a scope's operations.
type Stored struct {
	Scope string

	// Bytes is the size of the answers, requests and data, as they are stored and before the database compresses them, and [RecordSize] for each
	// operation. Expired operations do not count, swept or not.
	Bytes int64
}
