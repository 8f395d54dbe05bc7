package retry

import (
	"errors"
	"fmt"
	"strconv"
)

// Reason is why there is no further attempt. The set may grow.
type Reason string

const (
	ReasonPointless  Reason = "pointless"   // the same again would fail the same
	ReasonExhausted  Reason = "exhausted"   // that was the last attempt
	ReasonTooLate    Reason = "too late"    // the next attempt would begin after the deadline
	ReasonOverBudget Reason = "over budget" // too few successes lately for another retry
	ReasonNotSafe    Reason = "not safe"    // it may have taken effect, and must not do so twice
	ReasonNotWhole   Reason = "not whole"   // the body of the request cannot be sent again
	ReasonExpired    Reason = "expired"     // the key is so old that it may be forgotten
	ReasonCancelled  Reason = "cancelled"   // the context has ended
	ReasonOpen       Reason = "open"        // the breaker allows no attempt
)

// Error is how retrying ends without success. errors.Is and errors.As see both the last
// failure and the cause.
type Error struct {
	Reason   Reason
	Attempts int   // that were made
	Last     error // the last failure; nil if there was no attempt
	Cause    error // what ended it if not that failure: the error of the context or of the breaker
}

func (e *Error) Error() string {
	s := "retry: " + string(e.Reason) + " after " + strconv.Itoa(e.Attempts) + " attempt"
	if e.Attempts != 1 {
		s += "s"
	}
	switch {
	case e.Cause != nil && e.Last != nil:
		s = fmt.Sprintf("%s: %v; the last failure: %v", s, e.Cause, e.Last)
	case e.Cause != nil:
		s = fmt.Sprintf("%s: %v", s, e.Cause)
	case e.Last != nil:
		s = fmt.Sprintf("%s: %v", s, e.Last)
	}
	if try := advice[e.Reason]; try != "" && (e.Cause == nil || e.Reason != ReasonNotSafe) { // that cause has its own
		s += ". Try: " + try
	}
	return s
}

var advice = map[Reason]string{
	ReasonOverBudget: "later; if most calls succeed, look at retry.Budgets()",
	ReasonNotSafe:    "an idempotency key, one for all attempts of the same intent",
	ReasonNotWhole:   "a body that can be read again, with Request.GetBody",
	ReasonExpired:    "find out the outcome of the first attempt before you use another key",
}

// Timeout reports whether the last failure was a timeout, as a [net.Error] does.
func (e *Error) Timeout() bool {
	var t interface{ Timeout() bool }
	return errors.As(errors.Join(e.Cause, e.Last), &t) && t.Timeout()
}

// Unwrap returns the last failure and the cause, as far as there are any.
func (e *Error) Unwrap() []error {
	both := make([]error, 0, 2)
	for _, err := range [...]error{e.Last, e.Cause} {
		if err != nil {
			both = append(both, err)
		}
	}
	return both
}
