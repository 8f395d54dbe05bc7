// Package sqlplane runs the SQL statements of a capability (a part of the library that has tables of its
// own, such as an outbox) through the store that keeps the operations. The statements run in a
// transaction of the user, or in a separate transaction.
package sqlplane

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/oncelib/once/store"
)

// Dialect is the SQL dialect of a database.
type Dialect string

// The constants are the dialects of the stores of this module.
const (
	PostgreSQL Dialect = "postgres"
	SQLite     Dialect = "sqlite"
	MySQL      Dialect = "mysql" // MySQL and MariaDB
)

// Database is a store that keeps operations in tables, and also runs the statements of a capability, such as an
// outbox or the attempt log. So a capability needs no separate driver and no separate pool of connections. The
// interface [SQL], a Database with one more method, also runs statements inside a transaction of the user.
//
// The methods of Database have no time limit of their own: only the end of ctx ends a wait early. Statements
// are written in the SQL dialect that the method Dialect returns. Every error of a [Runner] is a
// [*store.Error].
type Database interface {
	Dialect() Dialect

	// Pool returns a Runner that runs each statement in a transaction of its own, in one round trip if the
	// database supports this. The error of a statement has the kind [store.KindLost] if the statement may have
	// been applied.
	Pool() Runner

	// Within runs fn in a transaction at the given isolation level, and commits if fn returns nil. If fn
	// returns an error, Within rolls back and returns this error. Within runs fn only one time. After an error
	// of the kind [store.KindRetry], another call of Within may succeed. After an error of the kind
	// [store.KindLost], the commit may have been applied.
	Within(ctx context.Context, isolation store.Isolation, fn func(ctx context.Context, r Runner) error) error
}

// SQL is a [Database] that also runs statements in a transaction of the user. SQL is an optional ability of a
// [store.Store]. A program finds the ability SQL with [store.As].
type SQL[TX any] interface {
	Database

	// On returns a Runner that runs statements in tx, which belongs to a handler or was opened by the user. The
	// statements are committed together with tx, or not at all. If a statement of the Runner fails, the
	// transaction fails, as after a failing statement of the handler. The error has the kind
	// [store.KindMisused] if tx is a *sql.Tx of a pool that sqlstore.Open has not opened.
	On(tx TX) Runner
}

// Runner runs SQL statements.
type Runner interface {
	// Exec runs s and returns how many rows it has affected.
	Exec(ctx context.Context, s store.Statement) (rows int64, err error)

	// Query runs s and calls the function each for every row that s returns. If the function each returns an
	// error, the query ends, and Query returns this error unchanged; the writes of s are not rolled back. A
	// row is valid only during the call of the function each. If s commits by itself (see Database.Pool), the
	// rows are valid only if Query returns nil. In a call of Query, s.Rows is the number of rows that s must
	// return.
	Query(ctx context.Context, s store.Statement, each func(Row) error) error

	// If the store can send statements together with the commit, Append sends s with the commit; if not,
	// Append runs s immediately. Statements that were appended under a savepoint are not sent if the savepoint
	// is rolled back. If s returns rows, the caller of Append cannot read these rows.
	Append(ctx context.Context, s store.Statement) error
}

// Row is one row of a result.
type Row interface {
	Scan(dest ...any) error
}

// ErrDuplicate is in the chain of an error if a row with the same primary or unique key already exists.
var ErrDuplicate = errors.New("a row with this key exists already")

// InLockOrder returns list in the order in which a store sends statements: sorted by Locks. Statements with the
// same Locks keep their order. Statements with empty Locks come first.
func InLockOrder(list []store.Statement) []store.Statement {
	byLocks := func(a, b store.Statement) int { return cmp.Compare(a.Locks, b.Locks) }
	if slices.IsSortedFunc(list, byLocks) {
		return list
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, byLocks)
	return list
}

// Reserver is a [Database] that can keep a connection outside its pool, for example for a heartbeat, so
// that the heartbeat does not wait when handlers use all connections of the pool.
type Reserver interface {
	// Reserve returns the same database with one connection of its own, which is not taken from the pool and
	// does not count towards the limit of the pool. The connection is opened when it is first used, and is
	// opened again after the connection has broken. The function release closes the connection. On SQLite
	// nothing is reserved: a statement waits until no other transaction writes.
	Reserve() (own Database, release func(), err error)
}
