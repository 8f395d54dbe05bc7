package store

import (
	"cmp"
	"context"
	"errors"
	"slices"
)

// Dialect is the SQL that a database speaks.
type Dialect string

// The dialects of the stores of this module.
const (
	PostgreSQL Dialect = "postgres"
	SQLite     Dialect = "sqlite"
	MySQL      Dialect = "mysql" // and MariaDB
)

// Database is a store that keeps operations in tables and runs the statements of a capability,
// such as an outbox or the attempt log, beside them: the capability needs neither a driver nor a
// pool of its own. What it needs inside of the user's transactions, [SQL] adds.
//
// Nothing bounds a wait but ctx. Statements are in the SQL of Dialect. Every error of a [Runner] is an [*Error].
type Database interface {
	Dialect() Dialect

	// Pool runs each statement in a transaction of its own, with one round trip where the
	// database can. Its error is [KindLost] if the statement may have been applied.
	Pool() Runner

	// Within runs fn in a transaction at this level, and commits if fn returns nil. Otherwise it
	// rolls back and returns the error of fn. It runs fn once: an error of [KindRetry] says
	// that another run may succeed, [KindLost] that the commit may have been applied.
	Within(ctx context.Context, isolation Isolation, fn func(ctx context.Context, r Runner) error) error
}

// SQL is a [Database] that runs statements in a transaction of the user as well. It is an
// optional ability of a [Store], found with [As].
type SQL[TX any] interface {
	Database

	// On runs statements in tx: one of a handler, or one that the user has opened. They
	// commit with it or not at all, and one that fails fails the transaction like a statement of the
	// handler. A *sql.Tx that is not guarded is [KindMisused].
	On(tx TX) Runner
}

// Runner runs statements.
type Runner interface {
	// Exec runs s and returns how many rows it has affected.
	Exec(ctx context.Context, s Statement) (rows int64, err error)

	// Query runs s and calls each for every row it returns. An error of each ends it, and
	// is returned as it is; what s has written stands. A row is valid until each returns. If s
	// commits by itself, the rows count only if Query returns nil. Rows of s is how many it
	// returns.
	Query(ctx context.Context, s Statement, each func(Row) error) error

	// Append sends s together with the commit if the store can, and runs it now if not. What
	// was appended to a savepoint that is rolled back is not sent. What s returns cannot be
	// read.
	Append(ctx context.Context, s Statement) error
}

// Row is one row of a result.
type Row interface {
	Scan(dest ...any) error
}

// ErrDuplicate is in the chain of an error if a row with the same primary or unique key exists.
var ErrDuplicate = errors.New("a row with this key exists")

// InLockOrder returns list in the order in which a store sends it: sorted by Locks. Statements
// with the same Locks stay in the order in which they are, and those without come first.
func InLockOrder(list []Statement) []Statement {
	byLocks := func(a, b Statement) int { return cmp.Compare(a.Locks, b.Locks) }
	if slices.IsSortedFunc(list, byLocks) {
		return list
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, byLocks)
	return list
}
