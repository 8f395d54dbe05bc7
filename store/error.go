package store

import (
	"errors"
	"fmt"
)

// Kind says what a store's error means for the operation.
type Kind uint8

const (
	KindOther       Kind = iota // a statement failed; nothing was applied
	KindTaken                   // the stored record is not the record that the caller expects; nothing was applied
	KindRetry                   // serialization failure or deadlock: nothing was applied, another run may succeed
	KindAborted                 // a statement had failed and the handler has ignored its error; nothing was applied
	KindMisused                 // rows or savepoints were left open; nothing was applied
	KindUnavailable             // the store was not reached in time, or only a standby of the store was reached; nothing was applied
	KindLost                    // the answer to COMMIT was lost: the COMMIT may have been applied; a look-up of the record shows whether the COMMIT was applied
	KindEnded                   // the user ended the transaction: its writes may be committed without a record
	KindBusy                    // a limit of Timeouts was reached while the transaction waited; nothing was applied
	KindStale                   // no record exists, and the store's clock is after BeginOptions.StaleAfter; no claim is held
	KindPartial                 // from an Irrevocable store only: earlier steps are committed, and no external call is in flight
	KindUncertain               // from an Irrevocable store only: an external call was begun, and its outcome is not known
)

// kinds are the words of errors and of the attempt log, which stores them: they do not change.
// So KindOther is "failed" and KindUnavailable is "down".
var kinds = [...]string{"failed", "taken", "retry", "aborted", "misused", "down", "lost", "ended", "busy", "stale", "partial", "uncertain"}

// String returns the word by which errors and the attempt log name the kind.
func (k Kind) String() string {
	if int(k) < len(kinds) {
		return kinds[k]
	}
	return "invalid"
}

// Error is the error type of stores. Every error that an Operations, Store or Transaction returns is an *Error.
type Error struct {
	Kind Kind
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("store: %s: %v", e.Kind, e.Err) }

// Unwrap returns the database's own error.
func (e *Error) Unwrap() error { return e.Err }

// ErrRows is the cause of an error if a statement has affected more or fewer rows than Statement.Rows requires.
var ErrRows = errors.New("a statement has affected more or fewer rows than Statement.Rows requires")

// ErrNotMigrated is in the chain of an error if the store's tables do not exist. A retry fails in the same way
// until the tables are created.
var ErrNotMigrated = errors.New("the tables of the library \"once\" do not exist")

// KindOf returns the kind of the first *Error in err's chain, or [KindOther] if the chain has no *Error.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return KindOther
}
