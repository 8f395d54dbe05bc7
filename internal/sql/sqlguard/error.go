package sqlguard

import (
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"
)

// StatementError is the first error of a transaction.
type StatementError struct {
	Statement string // the beginning of its text, without arguments; empty if only an argument is known
	Err       error  // the driver's error
}

func (e *StatementError) Error() string {
	if e.Statement == "" {
		return "the driver has rejected an argument of a statement: " + e.Err.Error()
	}
	return "statement " + strconv.Quote(e.Statement) + " failed: " + e.Err.Error()
}

func (e *StatementError) Unwrap() error { return e.Err }

// RefusedError says that a statement or the COMMIT was not sent, because an earlier statement of the transaction has failed. A
// refused COMMIT becomes a ROLLBACK: nothing was applied.
type RefusedError struct {
	Refused string // COMMIT, or the quoted beginning of a statement
	First   *StatementError
}

func (e *RefusedError) Error() string {
	return "once: " + e.Refused + " was not sent, because an earlier statement of the transaction has failed: " + e.First.Error() +
		". Try: return the error of this first statement, or use a SAVEPOINT and ROLLBACK TO for a statement that may fail"
}

func (e *RefusedError) Unwrap() error { return e.First }

var (
	errControl = errors.New("the statement was not sent, because a statement must not begin or end the transaction." +
		" Try: Commit or Rollback of the *sql.Tx; for a part of the transaction SAVEPOINT and ROLLBACK TO, each in a separate statement")
	errImplicit = errors.New("the statement was not sent, because MySQL would commit the transaction before it runs the statement." +
		" Try: run the statement outside of the transaction")
	errAllLocks = errors.New("the statement was not sent, because it would also release the lock with which the library \"once\" claims the operation." +
		" Try: RELEASE_LOCK with the name of your own lock")
	errUsed = errors.New("once: this sqlguard.Txn is already used for another transaction." +
		" Try: a new Txn, and its Context, for each transaction")
	errNested = errors.New("once: this connection already has an open transaction, so a second transaction cannot begin." +
		" Try: end the first transaction, or use another connection")
	errForeign = errors.New("the statement was not sent, because its context has the sqlguard.Txn of another transaction." +
		" Try: a context without a sqlguard.Txn")
	errOutside = errors.New("once: a statement has the context of a sqlguard.Txn, but runs outside of a transaction." +
		" Try: run the statement on the *sql.Tx, or use a context without a sqlguard.Txn")
)

// headLength is how many characters of a statement an error shows.
const headLength = 60

// head returns the beginning of a statement on one line.
func head(query string) string {
	// A character needs at most four bytes; the rest is for indentation.
	const enough = 8 * headLength
	cut := len(query) > enough
	if cut {
		query = query[:enough]
	}
	query = strings.Join(strings.Fields(strings.ToValidUTF8(query, "")), " ")
	if utf8.RuneCountInString(query) > headLength {
		query, cut = string([]rune(query)[:headLength]), true
	}
	if cut {
		query += "..."
	}
	return query
}

func quote(query string) string { return strconv.Quote(head(query)) }
