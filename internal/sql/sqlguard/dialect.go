package sqlguard

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"time"
)

// Dialect is the SQL that a connection speaks. The zero value is not valid.
type Dialect uint8

// The dialects whose rules the guard knows.
const (
	PostgreSQL Dialect = iota + 1
	MySQL              // and MariaDB
	SQLite
)

func (d Dialect) String() string {
	switch d {
	case PostgreSQL:
		return "PostgreSQL"
	case MySQL:
		return "MySQL"
	case SQLite:
		return "SQLite"
	default:
		return fmt.Sprintf("Dialect(%d)", uint8(d))
	}
}

// begins returns the text that opens a guarded transaction, or nothing if the
// driver should open it.
//
// The guard opens transactions itself where it can, because it must also close them itself: a
// driver's COMMIT listens to the caller's context, and on PostgreSQL it cannot
// report that no transaction was left to commit. To open a driver's transaction
// and never close it is no solution: lib/pq keeps a watcher on it.
//
// SQLite begins IMMEDIATE whatever the data source name says: a transaction that
// reads first and wants to write later can fail with BUSY at any statement. A
// read-only one is left to the driver, which may have to reset query_only after.
func (d Dialect) begins(opts driver.TxOptions) (string, error) {
	switch d {
	case SQLite:
		if opts.ReadOnly {
			return "", nil
		}
		return "BEGIN IMMEDIATE", nil // always serializable, so every isolation level is granted
	case PostgreSQL:
		begin := "BEGIN"
		switch level := sql.IsolationLevel(opts.Isolation); level {
		case sql.LevelDefault:
		case sql.LevelReadUncommitted:
			begin += " ISOLATION LEVEL READ UNCOMMITTED"
		case sql.LevelReadCommitted:
			begin += " ISOLATION LEVEL READ COMMITTED"
		case sql.LevelRepeatableRead, sql.LevelSnapshot:
			begin += " ISOLATION LEVEL REPEATABLE READ"
		case sql.LevelSerializable:
			begin += " ISOLATION LEVEL SERIALIZABLE"
		default:
			return "", fmt.Errorf("once: PostgreSQL has no isolation level %s", level)
		}
		if opts.ReadOnly {
			begin += " READ ONLY"
		}
		return begin, nil
	default:
		return "", nil
	}
}

// stillOpen is a statement that PostgreSQL accepts only inside a transaction
// that is open and healthy. Outside one it answers 25P01, in an aborted one
// 25P02. It costs no transaction id, because nothing is written under it.
const stillOpen = "SAVEPOINT once_commit"

// commits returns the text that closes a transaction opened with begins. On
// PostgreSQL both statements travel together; the second runs only if the first
// succeeded, so COMMIT can answer neither with ROLLBACK (an aborted transaction)
// nor with a mere warning (no transaction).
func (d Dialect) commits() string {
	if d == PostgreSQL {
		return stillOpen + "; COMMIT"
	}
	return "COMMIT"
}

// tailBound is how long COMMIT or ROLLBACK may wait for a server's answer.
const tailBound = 10 * time.Second

// tail returns the context for COMMIT and ROLLBACK. They do not listen to the
// caller's context: cutting a COMMIT short makes its outcome unknown, and on a
// synchronously replicated PostgreSQL it makes the commit visible unreplicated.
func (d Dialect) tail(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx = context.WithoutCancel(ctx)
	if d == SQLite { // in this process: its own busy timeout is the bound
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, tailBound)
}
