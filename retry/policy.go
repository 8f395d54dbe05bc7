package retry

import (
	"context"
	"time"
)

// Policy says how often and for how long a function is tried. The zero value is ready to use, and so is a nil *Policy. It must not change while it is
// in use; any number of calls may share it.
type Policy struct {
	// Attempts is how often the function is tried, the first time included. Default 5; a negative number means 1.
	Attempts int

	// Base is the longest pause after the first failure. It doubles with every further failure, up to Cap; the pause itself is random between 0 and
	// that ("full jitter"). Default 100 ms. A negative Base means no pauses except the ones that the server asks for.
	Base time.Duration

	// Cap is the longest pause of our own. A pause that the server asks for may be longer. Default 2 s.
	Cap time.Duration

	// Total bounds the time of retries. No retry begins, or goes on, more than this after the first failure; package retryhttp counts it from the
	// beginning. [Do] does not, because it does not read the clock before: Timeout and the context bound its first attempt. Default 10 s. A negative
	// Total means no bound except the context's.
	Total time.Duration

	// Timeout bounds each attempt. Default: none.
	Timeout time.Duration

	// Unsafe says that the function must not take effect twice. Only failures that prove that it has had no effect are retried: [ClassTransient],
	// [ClassThrottled], [ClassUnseen].
	Unsafe bool

	// Budget pays for retries. Default: one budget of the process, which all calls without a budget share. See [BudgetFor].
	Budget *Budget

	// Breaker is asked before each attempt. Default: none.
	Breaker Breaker

	// Observe gets each failed attempt, before the pause, each request that is sent again or in parallel, and the end. It must be quick.
	Observe func(context.Context, Event)
}

// FailedAttempt is the input of [Policy.Next].
type FailedAttempt struct {
	Attempt int // number of the failed attempt: 1, 2, ...
	Class   Class
	After   time.Duration // pause that the server has asked for; 0 if none

	Elapsed  time.Duration // of Total
	Deadline time.Duration // when the caller's own time is over, counted as Elapsed is; 0 means never

	Silent int64 // result of Budget.Begin, if the attempt was given up without an answer; -1 if given up without a number; 0 if not given up

	Begun, Now time.Duration // when that attempt began and was given up, on the clock of Budget.Begin

	Random float64 // in [0, 1), for the pause
}

// Next decides what follows a failure: another attempt after a pause, or, if stop is not empty, no attempt. It reads no clock, draws no random
// numbers and does not wait, so that a simulation runs the same code as production. It takes the price of the next attempt from the budget; the
// caller must call [Budget.Succeed] after a success.
func (p *Policy) Next(f FailedAttempt) (wait time.Duration, stop Reason) { return p.next(&f) }

func (p *Policy) next(f *FailedAttempt) (wait time.Duration, stop Reason) {
	switch {
	case f.Class == ClassFinal:
		return 0, ReasonPointless
	case p.Unsafe && !f.Class.harmless():
		return 0, ReasonNotSafe
	case f.Attempt >= p.attempts():
		return 0, ReasonExhausted
	}
	wait = p.pause(f)
	if limit, bounded := p.limit(f.Deadline); bounded && wait >= limit-f.Elapsed {
		return 0, ReasonTooLate
	}
	if !p.budget().allow(f) {
		return 0, ReasonOverBudget
	}
	return wait, ""
}

// pause is random below a bound that doubles. The pause that the server asks for is added in full: jitter never makes an attempt earlier than
// allowed. If many callers wait for the same rate limit, their attempts are spread over up to a second.
func (p *Policy) pause(f *FailedAttempt) time.Duration {
	if f.Class == ClassUnseen && f.Attempt == 1 {
		return 0
	}
	bound := p.ceiling(f.Attempt)
	if f.After > 0 {
		bound = max(bound, f.After/10)
	}
	if f.Class == ClassRateLimited && p.budget().crowded() {
		bound = max(bound, min(f.After, time.Second))
	}
	wait := time.Duration(f.Random * float64(bound))
	if f.After > 0 {
		if wait += f.After; wait < 0 { // an absurd pause has overflowed
			wait = f.After
		}
	}
	return wait
}

func (p *Policy) ceiling(attempt int) time.Duration {
	base, most := p.Base, p.Cap
	if base < 0 {
		return 0
	}
	if base == 0 {
		base = 100 * time.Millisecond
	}
	if most <= 0 {
		most = 2 * time.Second
	}
	if doubled := attempt - 1; doubled < 62 && base <= most>>doubled {
		return base << doubled
	}
	return most
}

// limit returns when time is over, counted as Elapsed is.
func (p *Policy) limit(deadline time.Duration) (limit time.Duration, bounded bool) {
	total, bounded := p.total()
	switch {
	case deadline == 0:
		return total, bounded
	case !bounded:
		return deadline, true
	}
	return min(total, deadline), true
}

func (p *Policy) total() (total time.Duration, bounded bool) {
	if p.Total == 0 {
		return 10 * time.Second, true
	}
	return p.Total, p.Total > 0
}

func (p *Policy) attempts() int {
	if p.Attempts == 0 {
		return 5
	}
	return p.Attempts
}

func (p *Policy) budget() *Budget {
	if p.Budget == nil {
		return &shared
	}
	return p.Budget
}
