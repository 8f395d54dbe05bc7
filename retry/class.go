package retry

import (
	"errors"
	"slices"
	"time"
)

// Class is what a failure means for the next attempt.
type Class uint8

const (
	ClassUnknown     Class = iota // it may have taken effect: a reset connection, a timeout, a 500
	ClassTransient                // it has not, and may the next time: a connection that was not made
	ClassThrottled                // it has not, because the other side has too much to do
	ClassInFlight                 // an earlier attempt of the same intent is still at work
	ClassUnseen                   // the other side has provably not looked at it: the first re-send is immediate and costs a tenth
	ClassFinal                    // the same again would fail the same
	ClassRateLimited              // it has not: the caller has used up what it may ask for, and was told when there is more
)

// String returns the class in words.
func (c Class) String() string {
	if int(c) < len(classes) {
		return classes[c]
	}
	return "invalid class"
}

var classes = [...]string{"unknown", "transient", "throttled", "in flight", "unseen", "final", "rate limited"}

// harmless reports whether a failure of this class proves that nothing has happened.
func (c Class) harmless() bool {
	return c == ClassTransient || c == ClassThrottled || c == ClassUnseen || c == ClassRateLimited
}

// price is what another attempt costs, in hundredths of a retry. Where the other side
// has said when to come, coming is cheaper, and more so to ask after one's own work: but
// that is not free, or a server that says "in flight" to everything gets all attempts of
// all. What was not looked at costs what the success of its re-send puts back: nothing in
// the end if it succeeds, but not nothing where a server refuses all that comes. What was
// rate limited is paid for from [Budget.limited].
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

// Classify returns what err means, and how long the other side wants to be left alone
// (0: it has not said). The package documentation tells how.
func Classify(err error) (Class, time.Duration) {
	c, after, _ := classify(err)
	return c, after
}

// classify walks by hand where errors.As would do, because that allocates.
func classify(err error) (c Class, after time.Duration, said bool) {
	for err != nil {
		//nolint:errorlint // this is the walk along the chain
		switch e := err.(type) {
		case classed:
			c, after = classifyClassed(e)
			return c, after, true
		case interface{ RetryAfter() time.Duration }:
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

// classed is an error that knows its class and says it in the words of [Class.String]. causeFirst says that a
// cause which says something counts more.
type classed interface {
	RetryClass() (class string, after time.Duration, causeFirst bool)
}

// classifyClassed is classify for an error that knows its class.
func classifyClassed(e classed) (Class, time.Duration) {
	name, after, causeFirst := e.RetryClass()
	if w, ok := e.(interface{ Unwrap() error }); ok && causeFirst {
		if c, after, said := classify(w.Unwrap()); said {
			return c, after
		}
	}
	return classOf(name), after
}

// classOf returns the class of that name. A name that a newer version has is unknown to this one.
func classOf(name string) Class { return Class(max(0, slices.Index(classes[:], name))) }

// Permanent returns err as one that no other attempt can change. [Do] does not try again, and returns what it was made of; an inbox makes
// the message a dead letter at once; a relay does not deliver the message again, and its key waits for a person. Permanent of nil
// is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

// IsPermanent reports whether err is from [Permanent].
func IsPermanent(err error) bool { return errors.As(err, new(*permanentError)) }

type permanentError struct{ error }

func (e *permanentError) Unwrap() error   { return e.error }
func (e *permanentError) Retryable() bool { return false }

// After returns err as one that is retried, but not before d has passed.
func After(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &later{err, d, false}
}

// AfterLimit is [After] for an error that says that a rate limit is reached: see
// [ClassRateLimited].
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
