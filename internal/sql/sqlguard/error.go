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
		return "an argument of a statement was rejected: " + e.Err.Error()
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
	return "once: " + e.Refused + " refused, because earlier in this transaction " + e.First.Error() +
		". Try: return that first error, or run a statement that may fail under a SAVEPOINT of its own and ROLLBACK TO it"
}

func (e *RefusedError) Unwrap() error { return e.First }

var (
	errControl = errors.New("refused, because it begins or ends the guarded transaction." +
		" Try: Commit or Rollback of the *sql.Tx; for a part of it SAVEPOINT and ROLLBACK TO, each a statement of its own")
	errImplicit = errors.New("refused, because MySQL commits the transaction when it runs this." +
		" Try: run it outside the transaction")
	errAllLocks = errors.New("refused, because it releases the lock by which once holds its claim as well." +
		" Try: RELEASE_LOCK with the name of your own lock")
	errUsed = errors.New("once: this sqlguard.Txn guards, or has guarded, another transaction." +
		" Try: a new Txn, and its Context, for each transaction")
	errNested = errors.New("once: a transaction is open on this connection already, and one of the two is guarded." +
		" Try: end the first, or take another connection")
	errForeign = errors.New("refused, because its context carries the sqlguard.Txn of another transaction." +
		" Try: a context that carries none")
	errOutside = errors.New("once: a statement with the context of a sqlguard.Txn ran outside every transaction of its connection." +
		" Try: run it on the *sql.Tx, or with a context that does not carry the Txn")
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
