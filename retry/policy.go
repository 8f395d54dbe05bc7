package retry

import (
	"context"
	"time"
)

// Policy says how often and for how long a function is tried. The zero value and a nil *Policy are ready to use. A Policy must not be changed while
// it is in use; any number of calls may share it.
type Policy struct {
	// Attempts is the largest number of attempts, including the first attempt. Default: 5. A negative number
	// means 1.
	Attempts int

	// Base is the longest pause after the first failure. The longest pause doubles with every further failure, up to Cap. The pause itself is random
	// between 0 and the longest pause ("full jitter"). Default: 100 ms. If Base is negative, a retry waits only if the server asks for a pause.
	Base time.Duration

	// Cap limits the longest pause, which doubles until it reaches Cap. A pause that the server asks for may be longer.
	// Default: 2 s.
	Cap time.Duration

	// Total limits the time of all retries together. In [Do] the time Total begins with the first failure, because Do does not read the clock
	// before the first failure. So in Do only Timeout and the context limit the first attempt. In package retryhttp the time Total begins with
	// the call. When Total has passed, no retry begins, and the context of a running retry ends. Default: 10 s. If Total is negative, only the
	// context limits the retries.
	Total time.Duration

	// Timeout limits each attempt, by its context. Default: 0, no limit.
	Timeout time.Duration

	// Unsafe says that the function must not take effect twice. If Unsafe is set, only failures that prove that the attempt had no effect
	// are retried: [ClassTransient], [ClassThrottled], [ClassUnseen] and [ClassRateLimited].
	Unsafe bool

	// Budget limits retries in proportion to successes. Default: one budget, which all calls of the process without a budget of their own
	// share. [BudgetFor] returns a budget for one destination.
	Budget *Budget

	// Breaker is asked before each attempt whether the attempt may be made. Default: nil, every attempt may be made.
	Breaker Breaker

	// Observe is called with every [Event]: after each failed attempt and before its pause, when a request is sent again or in parallel, and at the
	// end of the call. Observe must return quickly, because the call waits for its return. Default: nil.
	Observe func(context.Context, Event)
}

// FailedAttempt is the input of [Policy.Next].
type FailedAttempt struct {
	Attempt int // the number of the failed attempt: 1, 2, ...
	Class   Class
	After   time.Duration // the pause that the server has asked for; 0 if the server has not asked for a pause

	Elapsed  time.Duration // the part of Policy.Total that has passed
	Deadline time.Duration // the time at which the time limit of the caller ends, on the same clock as Elapsed; 0 means that the caller has no time limit

	Silent int64 // the result of Budget.Begin if the attempt was given up without an answer; -1 if the attempt was given up and has no number; 0 if the attempt was not given up

	Begun, Now time.Duration // the times at which the attempt began and was given up, on the clock of Budget.Begin

	Random float64 // a random number in [0, 1), from which Next computes the pause
}

// Next decides whether another attempt follows a failed attempt. If the result stop is "", another attempt follows, after a pause of the length wait.
// If stop is not "", no attempt follows. Next does not read a clock, generate random numbers or wait. So a simulation can call Next in the same way
// as a real program. Next takes the price of the next attempt from the budget. The caller must call [Budget.Succeed] after a success.
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
	// The budget is asked last, because its answer takes tokens.
	if !p.budget().allow(f) {
		return 0, ReasonOverBudget
	}
	return wait, ""
}

// pause returns a random pause below a bound that doubles. If the server asks for a pause, this pause is added in full, so that no attempt comes too
// early. If many callers wait for the same rate limit, their attempts are spread over up to one second.
func (p *Policy) pause(f *FailedAttempt) time.Duration {
	// Only the first re-send of an unseen request is immediate.
	if f.Class == ClassUnseen && f.Attempt == 1 {
		return 0
	}
	bound := p.ceiling(f.Attempt)
	if f.After > 0 {
		// A random part is added to the pause, so that not all clients return at the same moment.
		bound = max(bound, f.After/10)
	}
	if f.Class == ClassRateLimited && p.budget().crowded() {
		// Many calls of this process wait for the same limit, so they spread further.
		bound = max(bound, min(f.After, time.Second))
	}
	wait := time.Duration(f.Random * float64(bound))
	if f.After > 0 {
		if wait += f.After; wait < 0 { // a very long pause has overflowed
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
	// The comparison shifts down, because a shift up could overflow.
	if doubled := attempt - 1; doubled < 62 && base <= most>>doubled {
		return base << doubled
	}
	return most
}

// limit returns the end of the time for attempts, on the same clock as Elapsed.
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
