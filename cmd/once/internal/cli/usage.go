package cli

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/oncelib/once/internal/base/words"
)

// UsageError says that the command line is wrong.
type UsageError struct{ what, try string }

// Usage returns a *UsageError: the mistake, and a correct command line.
func Usage(what, try string) *UsageError { return &UsageError{what, try} }

// Error implements error.
func (e *UsageError) Error() string { return words.Sentence(e.what) + " Try: " + e.try }

// Errors for failures that the command has already printed.
var (
	ErrSaid    = errors.New("said")
	ErrNothing = errors.New("the command has found nothing, and has printed an error")
)

// nothingError says that the named thing does not exist.
type nothingError struct{ error }

// Unwrap implements the interface of package errors.
func (e *nothingError) Unwrap() error { return e.error }

// Nothing marks an error: the named thing does not exist.
func Nothing(err error) error { return &nothingError{err} }

// unreachableError says that a database or a broker cannot be reached.
type unreachableError struct{ error }

// Unwrap implements the interface of package errors.
func (e *unreachableError) Unwrap() error { return e.error }

// Unreachable marks an error: the database or the broker cannot be reached.
func Unreachable(err error) error { return &unreachableError{err} }

// failure is an error for scripts. Its JSON form is a contract with them.
type failure struct {
	Error struct {
		Code    string `json:"code"` // usage, nothing_found, unreachable, interrupted or failed
		Exit    int    `json:"exit"`
		Message string `json:"message"`
		Try     string `json:"try"`
	} `json:"error"`
}

var codeNames = map[int]string{ExitFailed: "failed", ExitUsage: "usage", ExitNothing: "nothing_found", ExitUnreachable: "unreachable", exitInterrupted: "interrupted"}

// complain prints the error and its advice: on a line of its own, or as one line of JSON if the command prints JSON.
func (m *Env) complain(form Form, code int, err error) {
	what, try := words.Advice(err.Error())
	if try == "" && code != exitInterrupted {
		try = "once --help"
	}
	if form != Table {
		var f failure
		f.Error.Code, f.Error.Exit, f.Error.Message, f.Error.Try = codeNames[code], code, what, try
		if text, err := json.Marshal(f); err == nil { // cannot fail: it has only numbers and strings
			fmt.Fprintf(m.Stderr, "%s\n", text)
		}
		return
	}
	fmt.Fprintf(m.Stderr, "once: %s\n", what)
	if try != "" {
		fmt.Fprintf(m.Stderr, "Try: %s\n", try)
	}
}
