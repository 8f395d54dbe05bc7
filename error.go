package once

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Code is why an operation has not returned a value. The set is closed.
type Code string

const (
	CodeInvalid     Code = "invalid"            // the operation itself is malformed
	CodeInFlight    Code = "in_flight"          // another caller executes it now
	CodeMismatch    Code = "mismatch"           // the key was used for another request
	CodeUnknown     Code = "unknown"            // an external effect may have happened; a person decides, or, with Error.After, the next caller asks
	CodeStale       Code = "stale"              // nothing is known of the operation, and its first attempt is so old that it may be forgotten
	CodeFailed      Code = "failed"             // the handler failed; nothing is stored, a retry executes
	CodeAborted     Code = "aborted"            // the handler has swallowed a statement error; nothing is stored
	CodeConflict    Code = "conflict"           // serialization failures in every run; nothing is stored, try later
	CodeUnavailable Code = "unavailable"        // the store was not reached, has not answered in time, or was busy
	CodeNoResult    Code = "result_unavailable" // done earlier, but its result was not kept or cannot be decoded
	CodeMisuse      Code = "misuse"             // the handler has ended its transaction, or left it unfit to commit
)

// Effect is what an error proves about the effect of this call.
type Effect uint8

const (
	EffectInDoubt    Effect = iota // it may have taken effect: ask again with the same key
	EffectNotApplied               // nothing of this call took effect
	EffectApplied                  // the handler's writes are committed, by this or an earlier call
)

// String returns the effect in words.
func (e Effect) String() string {
	switch e {
	case EffectNotApplied:
		return "not applied"
	case EffectApplied:
		return "applied"
	}
	return "in doubt"
}

// Error is how an operation fails; the other error that [Do] returns is *[Failure].
// The message is for operators, not for clients.
type Error struct {
	Code   Code
	Effect Effect
	Scope  string
	Key    string        // as it is stored: hashed under Config.HashKeys
	After  time.Duration // when to ask again; 0: not said
	Err    error         // the cause: the handler's or the store's error
}

func (e *Error) Error() string {
	s := fmt.Sprintf("once: %s, key %s: %s (%s)", e.Scope, e.Key, e.Code, e.Effect)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause: errors.Is and errors.As see the handler's own error.
func (e *Error) Unwrap() error { return e.Err }

// RetryClass says whether another attempt is worth while, in the words of package retry. causeFirst means that
// the class of the handler's own error takes precedence.
func (e *Error) RetryClass() (class string, after time.Duration, causeFirst bool) {
	switch e.Code {
	case CodeInFlight:
		return "in flight", e.After, false
	case CodeUnknown:
		if e.After > 0 { // the called service is asked when the next caller comes
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

// CodeOf returns the code of the first *Error in err's chain, "" if the chain has no *Error.
func CodeOf(err error) Code {
	if err == nil {
		return "" // asked on every success: costs no allocation
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// EffectOf returns what err proves. nil proves that the operation was applied; after [Join] it proves this only when the transaction of the caller has
// committed. A *[Failure] takes
// its key for good, but it was applied only if it has CommitWrites: otherwise the handler's writes
// were rolled back. An error of another package proves nothing.
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

// Failure is a final answer that is not a value, such as "card declined". A
// handler that returns one has it stored, and every retry gets it again. The
// handler's writes are rolled back unless CommitWrites is set. A replay has it as it was, and set
// if an earlier version has stored it, which did not say. Every other error of a
// handler is transient: nothing is stored and a retry executes.
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

// Retryable makes retry loops stop: the same operation would get the same Failure again.
func (f *Failure) Retryable() bool { return false }
