package retry

import (
	"errors"
	"slices"
	"time"
)

// Class is the kind of a failed attempt. The class decides whether and when another attempt follows, and
// what the next attempt takes from the budget.
type Class uint8

const (
	ClassUnknown     Class = iota // the attempt may have taken effect, for example after a reset connection, a timeout or a 500
	ClassTransient                // the attempt had no effect, for example because no connection was made, and the next attempt may succeed
	ClassThrottled                // the attempt had no effect, because the server is overloaded
	ClassInFlight                 // an earlier attempt of the same intent is still running
	ClassUnseen                   // the server has provably not read the request: the request is sent again immediately, and the first time the request takes only a tenth of a retry from the budget
	ClassFinal                    // another attempt would fail in the same way
	ClassRateLimited              // the attempt had no effect: the caller has used up its quota, and the answer says when to try again
)

// String returns the name of the class, such as "rate limited".
func (c Class) String() string {
	if int(c) < len(classes) {
		return classes[c]
	}
	return "invalid class"
}

var classes = [...]string{"unknown", "transient", "throttled", "in flight", "unseen", "final", "rate limited"}

// harmless reports whether a failure of this class proves that the attempt had no effect.
func (c Class) harmless() bool {
	return c == ClassTransient || c == ClassThrottled || c == ClassUnseen || c == ClassRateLimited
}

// price returns the cost of another attempt, in hundredths of a retry. The price is lower if the server has said when to try again, and lower still
// if an earlier attempt of the same intent is in flight. Such an attempt is not free, because a server that answers "in flight" to all requests would
// get all attempts of all clients. The re-send of an unseen request costs as much as its success gives back, so a healthy server costs nothing. A
// rate limited retry is paid from [Budget.limited].
func (c Class) price(attempt int) int64 {
	switch {
	case c == ClassUnseen && attempt <= 1:
		return 10
	case c == ClassInFlight:
		return 30
	case c == ClassThrottled:
		return 50
	}
	return 100
}

// Classify returns the class of err, and the time for which the server wants no further attempt (0 if the error does not say). The section "Which
// failures are retried" of the package documentation has the rules.
func Classify(err error) (Class, time.Duration) {
	c, after, _ := classify(err)
	return c, after
}

// classify walks along the chain of errors itself, because errors.As allocates.
func classify(err error) (c Class, after time.Duration, said bool) {
	for err != nil {
		//nolint:errorlint // this is the walk along the chain
		switch e := err.(type) {
		case classed:
			c, after = classifyClassed(e)
			return c, after, true
		case interface{ RetryAfter() time.Duration }:
			// A refusal is final, even if the error names a time.
			if r, ok := err.(interface{ Retryable() bool }); ok && !r.Retryable() { //nolint:errorlint // as above
				return ClassFinal, 0, true
			}
			if l, ok := err.(interface{ RateLimited() bool }); ok && l.RateLimited() && e.RetryAfter() > 0 { //nolint:errorlint // as above
				return ClassRateLimited, e.RetryAfter(), true
			}
			return ClassThrottled, e.RetryAfter(), true
		case interface{ Retryable() bool }:
			if e.Retryable() {
				return ClassUnknown, 0, true
			}
			return ClassFinal, 0, true
		case interface{ Unwrap() error }:
			err = e.Unwrap()
		case interface{ Unwrap() []error }:
			// The first cause with a class decides.
			for _, cause := range e.Unwrap() {
				if c, after, said := classify(cause); said {
					return c, after, true
				}
			}
			return ClassUnknown, 0, false
		default:
			return ClassUnknown, 0, false
		}
	}
	return ClassUnknown, 0, false
}

// classed is an error that names its class, as [Class.String] does. If causeFirst is true and the cause has a class, the class of the cause counts.
type classed interface {
	RetryClass() (class string, after time.Duration, causeFirst bool)
}

// classifyClassed returns the class of an error that names its class.
func classifyClassed(e classed) (Class, time.Duration) {
	name, after, causeFirst := e.RetryClass()
	if w, ok := e.(interface{ Unwrap() error }); ok && causeFirst {
		if c, after, said := classify(w.Unwrap()); said {
			return c, after
		}
	}
	return classOf(name), after
}

// classOf returns the class with this name. A name from a newer version is ClassUnknown.
func classOf(name string) Class { return Class(max(0, slices.Index(classes[:], name))) }

// Permanent marks err as permanent: another attempt would fail, too. Permanent(nil) returns nil. If the function that was passed to [Do] returns
// a permanent error, Do makes no further attempt, and returns the permanent error. If the handler of an inbox returns a permanent error, the
// inbox stores the message as a dead letter (a message that was given up) without another attempt. If the publisher of an outbox returns a
// permanent error, the relay does not deliver the message again; the later messages with the same ordering key wait until an operator decides
// what happens with the refused message.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

// IsPermanent reports whether an error in the chain of err was made by [Permanent].
func IsPermanent(err error) bool { return errors.As(err, new(*permanentError)) }

type permanentError struct{ error }

func (e *permanentError) Unwrap() error   { return e.error }
func (e *permanentError) Retryable() bool { return false }

// After wraps err. If an attempt returns the wrapped error, another attempt follows, but not before d has passed.
// The class of the wrapped error is [ClassThrottled].
func After(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &later{err, d, false}
}

// AfterLimit wraps err as the error of a rate limit. If an attempt returns the wrapped error, another attempt follows, but not
// before d has passed. The class of the wrapped error is [ClassRateLimited].
func AfterLimit(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &later{err, d, true}
}

type later struct {
	error
	after   time.Duration
	limited bool
}

func (l *later) Unwrap() error             { return l.error }
func (l *later) RetryAfter() time.Duration { return l.after }
func (l *later) RateLimited() bool         { return l.limited }
