package retry

import (
	"errors"
	"fmt"
	"strconv"
)

// Reason says why no further attempt is made. Later versions may add values.
type Reason string

const (
	ReasonPointless  Reason = "pointless"   // another attempt would fail in the same way
	ReasonExhausted  Reason = "exhausted"   // the policy allows no more attempts
	ReasonTooLate    Reason = "too late"    // the next attempt would begin after the deadline
	ReasonOverBudget Reason = "over budget" // the budget allows no retry: too few attempts succeeded lately
	ReasonNotSafe    Reason = "not safe"    // the attempt may have taken effect, and must not take effect twice
	ReasonNotWhole   Reason = "not whole"   // the body of the request is not available for another attempt
	ReasonExpired    Reason = "expired"     // the key is so old that the server may have deleted it
	ReasonCancelled  Reason = "cancelled"   // the context has ended
	ReasonOpen       Reason = "open"        // the breaker allows no attempt
)

// Error is returned when a call ends without success. errors.Is and errors.As find both the last failure and the cause.
type Error struct {
	Reason   Reason
	Attempts int   // the number of attempts that were made
	Last     error // the last failure; nil if there was no attempt
	Cause    error // why the call has ended, if Last is not the reason: for example, the error of the context or of the breaker
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
	if try := advice[e.Reason]; try != "" && (e.Cause == nil || e.Reason != ReasonNotSafe) { // the cause of ReasonNotSafe has its own advice
		s += ". Try: " + try
	}
	return s
}

var advice = map[Reason]string{
	ReasonOverBudget: "call again later; if most calls succeed, check the budgets with retry.Budgets()",
	ReasonNotSafe:    "an idempotency key that is the same in all attempts",
	ReasonNotWhole:   "set Request.GetBody, so that the body can be read again",
	ReasonExpired:    "find out the outcome of the first attempt before you use another key",
}

// Timeout reports whether the cause or the last failure was a timeout. The interface [net.Error] has the same method.
func (e *Error) Timeout() bool {
	var t interface{ Timeout() bool }
	return errors.As(errors.Join(e.Cause, e.Last), &t) && t.Timeout()
}

// Unwrap returns the last failure and the cause; errors that are nil are left out.
func (e *Error) Unwrap() []error {
	both := make([]error, 0, 2)
	for _, err := range [...]error{e.Last, e.Cause} {
		if err != nil {
			both = append(both, err)
		}
	}
	return both
}
