package once

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/oncelib/once/internal/base/keyname"
)

// Code says why the call of an operation has not returned a value. Later versions of this package will not
// add codes.
type Code string

const (
	CodeInvalid     Code = "invalid"            // the operation itself is malformed
	CodeInFlight    Code = "in_flight"          // another caller executes the operation now
	CodeMismatch    Code = "mismatch"           // the key was used for another request
	CodeUnknown     Code = "unknown"            // an effect outside of the database may have happened; an operator decides, or, if Error.After is set, a later call asks the called service for the outcome
	CodeStale       Code = "stale"              // no record of the operation exists, and its first attempt is so old that the record may have expired
	CodeFailed      Code = "failed"             // the handler has failed; nothing is stored, and a retry executes the handler again
	CodeAborted     Code = "aborted"            // the handler has ignored the error of a statement; nothing is stored
	CodeConflict    Code = "conflict"           // every run ended with a serialization failure; nothing is stored; call again later
	CodeUnavailable Code = "unavailable"        // the store was not reached, has not answered in time, or was busy
	CodeNoResult    Code = "result_unavailable" // an earlier call has done the operation, but its result was not kept or cannot be decoded
	CodeMisuse      Code = "misuse"             // the handler has ended its transaction, or left it in a state that cannot be committed
)

// Effect is what an error proves about the effect of a call on the database.
type Effect uint8

const (
	EffectInDoubt    Effect = iota // the call may have taken effect: a retry with the same key finds out whether the call took effect
	EffectNotApplied               // nothing of this call took effect
	EffectApplied                  // the handler's writes are committed, by this call or by an earlier call
)

// String returns the name of the effect, such as "in doubt".
func (e Effect) String() string {
	switch e {
	case EffectNotApplied:
		return "not applied"
	case EffectApplied:
		return "applied"
	}
	return "in doubt"
}

// Error is the error of a call that has not returned the final result of its operation. If the final result
// is a failure, [Do] returns a *[Failure] and not an Error. The message of an Error is for operators, not
// for clients. The message has the hash of the key (see [KeyHash]) and not the key, because programs log
// messages.
type Error struct {
	Code   Code
	Effect Effect
	Scope  string
	Key    string        // the key as it is stored: a hash if Config.HashKeys is set
	After  time.Duration // how long to wait before the next call; 0 means that the delay is not known
	Err    error         // the cause: the handler's or the store's error
}

func (e *Error) Error() string {
	var names []string // work without an operation has no name
	if e.Scope != "" {
		names = append(names, e.Scope)
	}
	if e.Key != "" {
		names = append(names, "key "+keyname.Hashes(e.Key)[0])
	}
	s := "once: "
	if len(names) > 0 {
		s += strings.Join(names, ", ") + ": "
	}
	s += fmt.Sprintf("%s (%s)", e.Code, e.Effect)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause, so that errors.Is and errors.As find the handler's own error.
func (e *Error) Unwrap() error { return e.Err }

// RetryClass returns the name of a class of package retry, which says whether another attempt can succeed. If
// causeFirst is true, and if the error that the handler returned has a class of its own, package retry uses
// that class instead of the class that RetryClass returns.
func (e *Error) RetryClass() (class string, after time.Duration, causeFirst bool) {
	switch e.Code {
	case CodeInFlight:
		return "in flight", e.After, false
	case CodeUnknown:
		if e.After > 0 { // the next caller makes the engine ask the called service
			return "unknown", e.After, false
		}
		return "final", 0, false
	case CodeFailed, CodeAborted, CodeConflict, CodeUnavailable:
	default: // invalid, mismatch, stale, result unavailable, misuse
		return "final", 0, false
	}
	causeFirst = e.Code == CodeFailed
	switch e.Effect {
	case EffectNotApplied:
		return "transient", e.After, causeFirst
	case EffectApplied:
		return "final", 0, causeFirst
	}
	return "unknown", e.After, causeFirst
}

// CodeOf returns the code of the first *Error in err's chain, or "" if the chain has no *Error.
func CodeOf(err error) Code {
	if err == nil {
		return "" // this is called after every success, and must not allocate
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// EffectOf returns what err proves about the effect of the call. If err is nil, the operation was applied.
// After [Join], a nil error does not prove that the operation was applied: the caller's transaction must
// also commit. A *[Failure] is stored under its key as the final result, but the effect is EffectApplied
// only if CommitWrites is set. If CommitWrites is not set, the handler's writes were rolled back, and the
// effect is EffectNotApplied. An error of another package proves nothing, so the effect is EffectInDoubt.
func EffectOf(err error) Effect {
	if err == nil {
		return EffectApplied
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Effect
	}
	var f *Failure
	if errors.As(err, &f) {
		if f.CommitWrites {
			return EffectApplied
		}
		return EffectNotApplied
	}
	return EffectInDoubt
}

// Failure is a final result that is not a value, such as "card declined". A Failure that a handler returns is
// stored, and every retry gets the same Failure. The handler's writes are rolled back unless CommitWrites is
// set. A replayed Failure has the same value of CommitWrites as the original Failure. If an earlier version
// of this library has stored the Failure without the field CommitWrites, CommitWrites is true in a replay. An
// error of a handler that is not a Failure is transient: nothing is stored, and a retry executes the handler
// again.
type Failure struct { //nolint:errname // it is an answer, which happens to travel as an error
	Code         string          `json:"code"`
	Message      string          `json:"message,omitempty"`
	Detail       json.RawMessage `json:"detail,omitempty"`
	CommitWrites bool            `json:"-"`
}

func (f *Failure) Error() string {
	if f.Message == "" {
		return f.Code
	}
	return f.Code + ": " + f.Message
}

// Retryable returns false, so that retry loops stop: a retry of the same operation would get the same Failure
// again.
func (f *Failure) Retryable() bool { return false }
