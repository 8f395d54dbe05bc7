package retry

import (
	"context"
	"time"
)

// Policy says how often and for how long something is tried. The zero value is ready
// to use, and so is nil where a *Policy is asked for. It must not change while it is in
// use; any number of calls may share it.
type Policy struct {
	// Attempts is how often it is tried, the first time included. Default 5; below 0: 1.
	Attempts int

	// Base is the longest pause after the first failure. It doubles with every further
	// one, up to Cap; the pause itself is random between 0 and that ("full jitter").
	// Default 100 ms; negative: no pauses but those that the other side asks for.
	Base time.Duration

	// Cap is the longest pause of our own. One that the other side asks for may be
	// longer. Default 2 s.
	Cap time.Duration

	// Total bounds the retrying. No retry begins, or goes on, more than this after the
	// first failure; package retryhttp counts it from the beginning. [Do] does not, because
	// it does not read the clock before: its first attempt is bounded by Timeout and the
	// context. Default 10 s; negative: no bound but the context's.
	Total time.Duration

	// Timeout bounds each attempt. Default: none.
	Timeout time.Duration

	// Unsafe says that what is tried must not happen twice. Only failures that prove
	// that nothing has happened are retried: [ClassTransient], [ClassThrottled], [ClassUnseen].
	Unsafe bool

	// Budget is where retries are paid from. Default: one budget of the process, which
	// all calls share that name none. See [BudgetFor].
	Budget *Budget

	// Breaker is asked before each attempt. Default: none.
	Breaker Breaker

	// Observe is told of what happens: of each failed attempt before the pause, of what is
	// sent again or in parallel, and of the end. It must be quick.
	Observe func(context.Context, Event)
}

// FailedAttempt is what [Policy.Next] decides on.
type FailedAttempt struct {
	Attempt int // the one that has failed: 1, 2, ...
	Class   Class
	After   time.Duration // what the other side has asked for; 0: nothing

	Elapsed  time.Duration // of Total
	Deadline time.Duration // when the caller's own time is over, counted as Elapsed is; 0: never

	Silent int64 // what Budget.Begin has returned, if the attempt was given up unanswered; -1: given up, without a number; 0: not given up

	Begun, Now time.Duration // when that attempt began and was given up, on the clock of Budget.Begin

	Random float64 // in [0, 1), for the pause
}

// Next decides what follows a failure: a pause and another attempt, or, if stop is not
// empty, neither. It reads no clock, draws no random numbers and does not wait, so that
// a simulation runs what production runs. It takes the price of the next attempt from
// the budget; [Budget.Succeed] after a success is left to the caller.
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

// pause is random below a bound that doubles. What the other side asks for comes on
// top of it entirely: jitter never makes an attempt earlier than allowed. Where many wait
// for the same rate limit, they come back within up to a second.
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
		if wait += f.After; wait < 0 { // an absurd wish
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
