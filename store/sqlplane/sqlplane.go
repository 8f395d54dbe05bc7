// Package sqlplane runs the statements of a capability with tables of its own, such as an outbox, through a store that keeps its
// operations in tables, in transactions of the user or in its own.
package sqlplane

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/oncelib/once/store"
)

// Dialect is the SQL that a database speaks.
type Dialect string

// The dialects of the stores of this module.
const (
	PostgreSQL Dialect = "postgres"
	SQLite     Dialect = "sqlite"
	MySQL      Dialect = "mysql" // and MariaDB
)

// Database is a store that keeps operations in tables and also runs the statements of a capability,
// such as an outbox or the attempt log: the capability needs neither a driver nor a
// pool of its own. [SQL] adds statements inside of the user's transactions.
//
// Only ctx bounds waits. Statements are in the SQL of Dialect. Every error of a [Runner] is an [*store.Error].
type Database interface {
	Dialect() Dialect

	// Pool runs each statement in a transaction of its own, with one round trip where the
	// database can. Its error is [store.KindLost] if the statement may have been applied.
	Pool() Runner

	// Within runs fn in a transaction at this level, and commits if fn returns nil. Otherwise it
	// rolls back and returns the error of fn. It runs fn once: an error of [store.KindRetry] says
	// that another run may succeed, [store.KindLost] that the commit may have been applied.
	Within(ctx context.Context, isolation store.Isolation, fn func(ctx context.Context, r Runner) error) error
}

// SQL is a [Database] that runs statements in a transaction of the user as well. It is an
// optional ability of a [store.Store], found with [store.As].
type SQL[TX any] interface {
	Database

	// On runs statements in tx: one of a handler, or one that the user has opened. They
	// commit with it or not at all, and one that fails fails the transaction like a statement of the
	// handler. A *sql.Tx that is not guarded is [store.KindMisused].
	On(tx TX) Runner
}

// Runner runs statements.
type Runner interface {
	// Exec runs s and returns how many rows it has affected.
	Exec(ctx context.Context, s store.Statement) (rows int64, err error)

	// Query runs s and calls each for every row it returns. An error of each ends it, and
	// is returned as it is; the writes of s are not undone. A row is valid until each returns. If s
	// commits by itself, the rows count only if Query returns nil. Rows of s is how many it
	// returns.
	Query(ctx context.Context, s store.Statement, each func(Row) error) error

	// Append sends s together with the commit if the store can, and runs it now if not. Statements
	// that were appended to a savepoint are not sent if it is rolled back. The rows that s returns cannot be
	// read.
	Append(ctx context.Context, s store.Statement) error
}

// Row is one row of a result.
type Row interface {
	Scan(dest ...any) error
}

// ErrDuplicate is in the chain of an error if a row with the same primary or unique key exists.
var ErrDuplicate = errors.New("a row with this key exists")

// InLockOrder returns list in the order in which a store sends it: sorted by Locks. Statements
// with the same Locks stay in the order in which they are, and those without come first.
func InLockOrder(list []store.Statement) []store.Statement {
	byLocks := func(a, b store.Statement) int { return cmp.Compare(a.Locks, b.Locks) }
	if slices.IsSortedFunc(list, byLocks) {
		return list
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, byLocks)
	return list
}

// Reserver is a [Database] that can keep a connection outside its pool, for a heartbeat: the heartbeat does
// not wait for handlers that have all connections of the pool.
type Reserver interface {
	// Reserve returns the same database with one connection of its own, which is not one of the
	// pool's and does not count as one. It is opened when it is first used, and again after it has broken.
	// release closes it. On SQLite there is nothing to reserve: a statement waits for its turn to write.
	Reserve() (own Database, release func(), err error)
}
