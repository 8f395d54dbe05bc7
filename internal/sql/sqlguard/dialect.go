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

// These are the dialects whose rules the guard knows.
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

// begins returns the text that opens a guarded transaction. It returns "" if the driver should open it.
//
// The guard opens transactions itself if possible, because it must also close them itself. The COMMIT of a driver obeys
// the caller's context, and on PostgreSQL it cannot report that no transaction was open. A transaction that the driver
// opens must also be closed by the driver: lib/pq, for example, keeps a watcher for it.
//
// SQLite begins IMMEDIATE, whatever the data source name says. A transaction that reads first and writes later can fail
// with BUSY at any statement. The driver opens a read-only transaction, because it may have to reset query_only later.
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

// stillOpen is a statement that PostgreSQL accepts only inside an open transaction without errors. Outside a transaction it
// returns 25P01, and in a failed one 25P02. It uses no transaction id, because nothing is written after it.
const stillOpen = "SAVEPOINT once_commit"

// commits returns the text that closes a transaction opened with begins. On PostgreSQL both statements are sent together, and
// the second runs only if the first has succeeded. So COMMIT can answer neither with ROLLBACK (a failed transaction) nor
// with only a warning (no transaction).
func (d Dialect) commits() string {
	if d == PostgreSQL {
		return stillOpen + "; COMMIT"
	}
	return "COMMIT"
}

// tailBound is how long COMMIT or ROLLBACK may wait for the answer of a server.
const tailBound = 10 * time.Second

// tail returns the context for COMMIT and ROLLBACK. The end of the caller's context does not end them: if a COMMIT is cancelled,
// its outcome is not known, and with synchronous replication of PostgreSQL the commit becomes visible without being
// replicated.
func (d Dialect) tail(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx = context.WithoutCancel(ctx)
	if d == SQLite { // SQLite runs in this process, and its busy timeout is the limit
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, tailBound)
}
