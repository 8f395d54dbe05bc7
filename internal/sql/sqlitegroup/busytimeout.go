package sqlitegroup

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"time"

	"github.com/oncelib/once/internal/sql/sqlguard"
)

// pollEvery is how often the first writer in the line checks whether another process has released the file.
const pollEvery = time.Millisecond

// BeginTx begins a transaction on conn as soon as no other process locks the file. It fails after the time until. SQLite's own
// wait would check after 1, 2, 5, ... 100 ms, and would not notice the end of caller. The transaction lasts as long as own.
// Before its first pause, BeginTx calls waits, and returns its error if the transaction need not begin.
func (f *File) BeginTx(own, caller context.Context, conn *sql.Conn, guard *sqlguard.Txn, until time.Time, waits func() error) (*sql.Tx, error) {
	if _, err := conn.ExecContext(context.WithoutCancel(own), busyTimeout(0)); err != nil { // without cancel: the pragma waits for nothing, and watching a context takes as long as the pragma
		return nil, err
	}
	for first := true; ; first = false {
		tx, err := conn.BeginTx(guard.Context(sqlguard.Own(own)), nil)
		if err == nil || !isBusy(err) || time.Now().After(until) {
			return tx, errors.Join(err, f.restoreBusyTimeout(conn, tx))
		}
		if first {
			// A replay need not wait for the file.
			if err := waits(); err != nil {
				return nil, errors.Join(err, f.restoreBusyTimeout(conn, nil))
			}
		}
		select {
		case <-time.After(pollEvery):
		case <-caller.Done():
			return nil, errors.Join(caller.Err(), err, f.restoreBusyTimeout(conn, nil))
		}
	}
}

// shortenBusyTimeout makes a connection of a group wait for the lock of the file no longer than ctx lasts, because SQLite does
// not notice a cancellation during this wait. If lockTimeout is set, it limits the wait, too. The result reports whether
// [File.restoreBusyTimeout] must be called.
func (f *File) shortenBusyTimeout(ctx context.Context, conn *sql.Conn, lockTimeout time.Duration) (shortened bool) {
	busy := f.busyTimeout.Milliseconds()
	left := busy
	if deadline, ok := ctx.Deadline(); ok {
		left = min(left, time.Until(deadline).Milliseconds())
	}
	if lockTimeout > 0 {
		left = min(left, lockTimeout.Milliseconds())
	}
	if left >= busy {
		return false
	}
	// At least 1 ms, because 0 disables the wait. After an error, the connection waits for its usual time.
	_, _ = conn.ExecContext(sqlguard.Own(context.WithoutCancel(ctx)), busyTimeout(max(1, left)))
	return true
}

// restoreBusyTimeout restores the busy_timeout of the connection, or drops the connection. If a transaction is open, the statement
// must use this transaction: a dropped connection waits for its transaction to end.
func (f *File) restoreBusyTimeout(conn *sql.Conn, tx *sql.Tx) error {
	ctx, text := sqlguard.Own(context.Background()), busyTimeout(f.busyTimeout.Milliseconds())
	var err error
	if tx != nil {
		_, err = tx.ExecContext(ctx, text)
	} else {
		_, err = conn.ExecContext(ctx, text)
	}
	if err != nil {
		if tx != nil {
			_ = tx.Rollback()
		}
		sqlguard.Drop(conn)
	}
	return err
}

func busyTimeout(ms int64) string { return "pragma busy_timeout = " + strconv.FormatInt(ms, 10) }

// isBusy reports whether err is SQLITE_BUSY (sqlite.org/rescode.html): another connection has locked the file.
func isBusy(err error) bool {
	const busy = 5
	code, ok := sqlguard.SQLiteCode(err)
	return ok && code&0xff == busy
}
