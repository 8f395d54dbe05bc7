// Package toolarge has the error for data that is too large to be stored.
package toolarge

import "fmt"

// Error is the cause of an error when the record of an operation, above all its result,
// or a value of a batch is larger than the database takes or the configuration allows.
// Nothing was applied, and the same data would fail again.
type Error struct {
	Bytes, Max int64  // the size of the data, and the limit; 0: not known
	Try        string // a remedy
	Err        error  // the database's own error; nil: it was not asked
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

// Retryable makes retry loops stop: the same data would fail again.
func (e *Error) Retryable() bool { return false }
