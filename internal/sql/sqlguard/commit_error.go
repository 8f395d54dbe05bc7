package sqlguard

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// CommitError says that the COMMIT was sent and did not succeed.
type CommitError struct {
	Err error
	// InDoubt says that the transaction may have been applied, and only the database knows. Otherwise the transaction was
	// certainly rolled back.
	InDoubt bool
}

func (e *CommitError) Error() string {
	if e.InDoubt {
		return "once: the outcome of COMMIT is unknown: " + e.Err.Error() +
			". Try: call again with the same key, which finds out the outcome"
	}
	return "once: COMMIT has failed, and nothing was applied: " + e.Err.Error()
}

func (e *CommitError) Unwrap() error { return e.Err }

// ErrEnded says that the transaction had ended before its owner ended it, by a COMMIT or ROLLBACK that the guard could not see.
// It is not known which of the two.
var ErrEnded = errors.New("the transaction had already ended when the commit or rollback was sent, for example by a COMMIT in a procedure")

func newCommitError(d Dialect, err error) *CommitError {
	if endedUnderneath(d, err) {
		return &CommitError{Err: fmt.Errorf("%w: %w", ErrEnded, err), InDoubt: true}
	}
	return &CommitError{Err: err, InDoubt: !answered(d, err)}
}

// Refused reports whether err is an answer of the database which says that nothing was committed, by COMMIT or by a statement
// outside a transaction.
func (d Dialect) Refused(err error) bool { return answered(d, err) }

// answered reports whether err is an answer of the database which says that a statement was not executed. Any other error (a
// broken connection, an ended context, an unknown error) may hide a success.
func answered(d Dialect, err error) bool {
	switch d {
	case PostgreSQL:
		state := SQLState(err)
		return state != "" && !endsConnection(state, err)
	case SQLite:
		code, ok := SQLiteCode(err)
		return ok && !mayHaveCommitted(code)
	default:
		code, _ := MySQLCode(err)
		return slices.Contains(mysqlRefusals, code) || PacketTooLarge(err) || errors.As(err, new(*unsentError))
	}
}

// PacketTooLarge reports whether MySQL's driver did not send a statement because the statement is larger than a packet may be.
func PacketTooLarge(err error) bool {
	return err != nil && strings.Contains(err.Error(), "packet for query is too large")
}

// endsConnection reports whether a server ends the connection with this error. The server may do so after a successful commit.
func endsConnection(state string, err error) bool {
	switch {
	case strings.HasPrefix(state, "08"), // connection exception
		strings.HasPrefix(state, "57P"), // shutdown, crash, terminated by an administrator
		state == "40003":                // statement completion unknown
		return true
	}
	severity := severityOf(err)
	return severity == "FATAL" || severity == "PANIC"
}

// These are the primary result codes of SQLite that this file uses.
const (
	sqliteError      = 1
	sqlitePerm       = 3
	sqliteAbort      = 4
	sqliteBusy       = 5
	sqliteLocked     = 6
	sqliteReadOnly   = 8
	sqliteInterrupt  = 9
	sqliteFull       = 13
	sqliteSchema     = 17
	sqliteTooBig     = 18
	sqliteConstraint = 19
	sqliteAuth       = 23
)

// mayHaveCommitted reports whether COMMIT may have reached the disk in spite of the code. With IOERR, and with NOMEM in WAL
// mode, the commit frame may have been written before the failure. Then a process that opens the file after a crash finds
// the commit, although no connection sees it now. Codes that are not expected at COMMIT also count as in doubt.
func mayHaveCommitted(code int) bool {
	switch code & 0xff {
	case sqliteError, sqlitePerm, sqliteAbort, sqliteBusy, sqliteLocked, sqliteReadOnly, sqliteInterrupt,
		sqliteFull, sqliteSchema, sqliteTooBig, sqliteConstraint, sqliteAuth:
		return false
	default:
		return true
	}
}

// endedUnderneath reports whether COMMIT or ROLLBACK found no transaction. On PostgreSQL, only the statement that is sent with
// COMMIT has this error. On MySQL, only the savepoint mark has it.
func endedUnderneath(d Dialect, err error) bool {
	switch d {
	case SQLite:
		return strings.Contains(err.Error(), "no transaction is active")
	case PostgreSQL:
		return SQLState(err) == "25P01"
	default:
		code, _ := MySQLCode(err)
		return code == mysqlNoSavepoint && strings.Contains(err.Error(), mark)
	}
}

// nested reports whether SQLite refused BEGIN because a transaction is open.
func nested(err error) bool {
	return strings.Contains(err.Error(), "within a transaction")
}

// marked adds ErrEnded to an error if the error means the same.
func marked(d Dialect, err error) error {
	if err != nil && endedUnderneath(d, err) {
		return fmt.Errorf("%w: %w", ErrEnded, err)
	}
	return err
}
