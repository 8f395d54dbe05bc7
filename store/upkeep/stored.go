package upkeep

import (
	"context"

	"github.com/oncelib/once/store"
)

// RecordSize is the approximate number of bytes that an operation takes in the store in addition to its
// answer, its request and its data. RecordSize covers the names of the operation, the other columns and the
// indexes.
const RecordSize = 400

// Measurer reports how many bytes the operations of scopes take in the store. A store in an SQL database does
// not have to implement Measurer, because a query can compute the sizes.
type Measurer interface {
	// Stored reads up to limit operations that sort after the operation after, by the bytes of scope and key.
	// For each scope, Stored returns the total size of the operations that Stored has read. The result next
	// is the argument after of the next page, or zero after the last page. A page continues where the
	// previous page has ended, which may be within a scope. If the database can return the length of an
	// answer without reading the answer, Stored reads only the lengths.
	Stored(ctx context.Context, after store.ID, limit int) (list []Stored, next store.ID, err error)
}

// Stored is the size of the operations of one scope.
type Stored struct {
	Scope string

	// Bytes is the stored size of the answers, requests and data, before the database compresses them.
	// Bytes also includes [RecordSize] for each operation. Expired operations do not count, even if their
	// rows still exist.
	Bytes int64
}
