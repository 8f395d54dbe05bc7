package retryhttp

import (
	"context"
	"time"

	"github.com/oncelib/once/retry"
)

// attempt sends the request, and once more in parallel if it may be hedged and no answer
// comes.
func (c *call) attempt() answer {
	if c.t.Hedge <= 0 || c.hedged || !c.repeatable || !c.body.repeatable() {
		return c.send(c.req.Context())
	}
	r := race{call: c, answers: make(chan answer, 2)}
	r.start()
	timer := time.NewTimer(c.t.Hedge)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			if !c.expired() && !c.impatient() && c.policy.Budget.Spend(retry.ClassUnknown) {
				c.hedged = true
				c.tell(retry.Event{Type: retry.EventHedged})
				r.start()
			}
		case a := <-r.answers:
			if over := r.arrived(a); over {
				return r.best
			}
		}
	}
}

// race is an attempt that may have two runners.
type race struct {
	*call
	answers chan answer
	cancels []context.CancelCauseFunc
	running int
	best    answer
	some    bool // best is set
}

func (r *race) start() {
	ctx, cancel := context.WithCancelCause(r.req.Context())
	runner := len(r.cancels)
	r.cancels = append(r.cancels, cancel)
	r.running++
	go func() {
		a := r.send(ctx)
		a.runner = runner
		if a.sending == nil { // the breaker has not allowed it
			cancel(nil)
		} else {
			a.sending.quit = cancel
		}
		r.answers <- a
	}()
}

// arrived takes the answer of a runner, and reports whether the answer decides the race. A failure does not decide the race while the other runner is
// still running. The answer "in flight" never decides the race, because the operation in flight is the operation of the other runner.
func (r *race) arrived(a answer) (over bool) {
	r.running--
	switch {
	case !r.some:
		r.best, r.some = a, true
	case a.good, r.best.shut, r.best.class == retry.ClassInFlight:
		r.best.discard()
		r.best = a
	default:
		a.discard()
	}
	if r.running == 0 {
		return true
	}
	if !a.good {
		return false
	}
	r.cancels[1-a.runner](errLost)
	go func() {
		late := <-r.answers
		late.discard()
	}()
	return true
}
