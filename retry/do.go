package retry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/oncelib/once/internal/base/lazy"
	"github.com/oncelib/once/internal/base/sleep"
)

var standard Policy

// Do calls fn until fn returns nil, or until p allows no further attempt. If p is nil, Do uses the zero [Policy]. The first attempt
// has the number 1.
//
// If fn returns an error of [ClassFinal], Do makes no further attempt and returns this error unchanged. If Do ends without a success and without
// an error of ClassFinal, Do returns an *[Error] with the reason, the number of attempts and the last failure. If ctx ends during a pause, Do
// returns at once. If ctx ends during an attempt, Do waits until fn returns.
func Do(ctx context.Context, p *Policy, fn func(ctx context.Context, attempt int) error) error {
	if p == nil {
		p = &standard
	}
	if ctx.Err() != nil {
		return p.ended(ctx, &Error{Reason: ReasonCancelled, Cause: ended(ctx)})
	}
	err, refusal := p.try(ctx, 1, lazy.Never, fn)
	switch {
	case refusal != nil:
		return p.ended(ctx, &Error{Reason: ReasonOpen, Cause: refusal})
	case err != nil:
		return p.again(ctx, err, fn)
	}
	p.succeeded(ctx, 1)
	return nil
}

func (p *Policy) succeeded(ctx context.Context, attempt int) {
	p.budget().Succeed()
	if p.Observe != nil {
		p.Observe(ctx, Event{Type: EventDone, Attempt: attempt})
	}
}

// ended tells Observe that a call has ended, if the end did not follow directly after a failed attempt.
func (p *Policy) ended(ctx context.Context, why *Error) error {
	if p.Observe != nil {
		p.Observe(ctx, Event{Type: EventEnded, Attempt: why.Attempts, Err: why, Stop: why.Reason})
	}
	return why
}

// again makes the attempts after the first failure, until one succeeds or the policy allows no more.
func (p *Policy) again(ctx context.Context, last error, fn func(context.Context, int) error) error {
	start, until := lazy.Moment(0), lazy.Never
	// Without Total the clock is not read, because Do should cost little.
	if total, bounded := p.total(); bounded {
		start = lazy.Now()
		until = start.Add(total)
	}
	failed := last // the error of the latest attempt; last says more if the end of ctx has cut the latest attempt off
	for attempt := 1; ; attempt++ {
		f := FailedAttempt{Attempt: attempt}
		f.Class, f.After = Classify(failed)
		if f.Class == ClassUnknown && timedOut(failed) {
			f.Silent = -1
			// Without a number from Budget.Begin, the start of the attempt is only an estimate.
			f.Now = time.Duration(lazy.Now())
			f.Begun = f.Now - cmp.Or(max(0, p.Timeout), time.Second/2)
		}
		wait, stop, sooner := p.decide(ctx, &f, start)
		if sooner {
			until = lazy.Never // the caller's deadline limits the attempts, and not Total
		}
		if p.Observe != nil {
			p.Observe(ctx, Event{Type: EventFailed, Attempt: attempt, Class: f.Class, Err: failed, Wait: wait, Stop: stop})
		}
		switch {
		// A final error goes to the caller as it is: no retry was possible, so there is nothing to add.
		case stop == ReasonPointless:
			return unmark(failed)
		case stop != "":
			return &Error{stop, attempt, last, ended(ctx)}
		case wait > 0 && !sleep.For(ctx, wait):
			return p.ended(ctx, &Error{ReasonCancelled, attempt, last, ended(ctx)})
		}
		var refusal error
		failed, refusal = p.try(ctx, attempt+1, until, fn)
		if refusal != nil {
			return p.ended(ctx, &Error{ReasonOpen, attempt, last, refusal})
		}
		if failed == nil {
			p.succeeded(ctx, attempt+1)
			return nil
		}
		// If only the end of ctx has ended the attempt, its error says less than the previous one, so last stays as it is.
		if ctx.Err() == nil || !errors.Is(failed, ctx.Err()) {
			last = failed
		}
	}
}

// timedOut reports whether err is a timeout. It calls errors.Is, which is slow, only if err can wrap another error.
func timedOut(err error) bool {
	switch err.(type) { //nolint:errorlint // errors.Is follows
	case interface{ Is(target error) bool }, interface{ Unwrap() error }, interface{ Unwrap() []error }:
		return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
	}
	return err == context.DeadlineExceeded || err == os.ErrDeadlineExceeded //nolint:errorlint // err wraps nothing
}

// decide returns what follows the failed attempt f. The result sooner reports whether the caller's deadline is before the end of Total, which began
// at start.
func (p *Policy) decide(ctx context.Context, f *FailedAttempt, start lazy.Moment) (wait time.Duration, stop Reason, sooner bool) {
	if ctx.Err() != nil {
		return 0, ReasonCancelled, false
	}
	pauses := p.Base >= 0 || f.After > 0
	// A random number costs time, and only a pause needs it.
	if pauses {
		f.Random = rand.Float64()
	}
	total, bounded := p.total()
	if bounded && f.Attempt > 1 {
		f.Elapsed = lazy.Now().Sub(start)
	}
	if pauses || bounded { // otherwise the next attempt begins now, and ctx has not ended
		f.Deadline = left(ctx, f.Elapsed)
		sooner = bounded && f.Deadline > 0 && f.Deadline <= total
	}
	wait, stop = p.next(f)
	return wait, stop, sooner
}

// left returns the value of FailedAttempt.Deadline.
func left(ctx context.Context, elapsed time.Duration) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	// 0 would mean that there is no deadline.
	return max(1, elapsed+time.Until(deadline))
}

// try makes an attempt, unless the breaker refuses it. The attempt must end at until.
func (p *Policy) try(ctx context.Context, attempt int, until lazy.Moment, fn func(context.Context, int) error) (err, refusal error) {
	if p.Breaker == nil {
		// Without a limit no context is made, so that the usual call stays cheap.
		if p.Timeout <= 0 && until == lazy.Never {
			return fn(ctx, attempt), nil
		}
		return p.timed(ctx, attempt, until, fn), nil
	}
	done, refusal := p.Breaker.Allow()
	if refusal != nil {
		return nil, refusal
	}
	said := HealthBad // the outcome if fn panics
	defer func() { done(said) }()
	err = p.timed(ctx, attempt, until, fn)
	said = outcome(ctx, err)
	return err, nil
}

// timed makes an attempt that must end at until, or after Timeout.
func (p *Policy) timed(ctx context.Context, attempt int, until lazy.Moment, fn func(context.Context, int) error) error {
	if p.Timeout > 0 {
		until = min(until, lazy.Now().Add(p.Timeout))
	}
	if until == lazy.Never {
		return fn(ctx, attempt)
	}
	own := &lazy.Context{Parent: ctx, Until: until}
	defer own.Cancel(nil)
	return fn(own, attempt)
}

// ended returns why ctx has ended, or nil if ctx has not ended.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == err { //nolint:errorlint // the cause says more than the error
		return err
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// unmark returns the error that Permanent has wrapped. It returns any other error unchanged.
func unmark(err error) error {
	if s, ok := err.(*permanentError); ok { //nolint:errorlint // only a value that Permanent itself has returned
		return s.error
	}
	return err
}
