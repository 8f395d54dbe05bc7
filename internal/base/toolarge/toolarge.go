// Package toolarge contains the error for data that is too large to be stored.
package toolarge

import "fmt"

// Error is the cause of an error if the record of an operation (usually its result), or a value of a batch, is too large for
// the database or for the configuration. Nothing was applied, and the same data would fail again.
type Error struct {
	Bytes, Max int64  // the size of the data, and the limit; 0: not known
	Try        string // advice
	Err        error  // the error of the database; nil: the database was not asked
}

func (e *Error) Error() string {
	s := "the result, or another value, is too large to be stored"
	if e.Max > 0 {
		s += fmt.Sprintf(": %d bytes of at most %d", e.Bytes, e.Max)
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s + ". Try: " + e.Try
}

// Unwrap returns the database's own error.
func (e *Error) Unwrap() error { return e.Err }

// Retryable returns false, so that retry loops stop: the same data would fail again.
func (e *Error) Retryable() bool { return false }
