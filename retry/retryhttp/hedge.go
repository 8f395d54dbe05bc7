package retryhttp

import (
	"context"
	"time"

	"github.com/oncelib/once/retry"
)

// attempt sends the request. If the request may be hedged and no answer comes in time, attempt sends it a second time in parallel.
func (c *call) attempt() answer {
	if c.t.Hedge <= 0 || c.hedged || !c.repeatable || !c.body.repeatable() {
		return c.send(c.req.Context())
	}
	// The channel has room for both answers, so that no runner blocks.
	r := race{call: c, answers: make(chan answer, 2)}
	r.start()
	timer := time.NewTimer(c.t.Hedge)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			// A hedge adds load like a retry, so the budget must pay for it.
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

// race is an attempt that may be sent by two runners.
type race struct {
	*call
	answers chan answer
	cancels []context.CancelCauseFunc
	running int
	best    answer
	some    bool // best has a value
}

func (r *race) start() {
	ctx, cancel := context.WithCancelCause(r.req.Context())
	runner := len(r.cancels)
	r.cancels = append(r.cancels, cancel)
	r.running++
	go func() {
		a := r.send(ctx)
		a.runner = runner
		if a.sending == nil { // the breaker has refused this runner
			cancel(nil)
		} else {
			// The context must live until the body of the answer was read.
			a.sending.quit = cancel
		}
		r.answers <- a
	}()
}

// arrived handles the answer of a runner, and reports whether the race is over. A failure does not end the race while the other runner is running.
// The answer "in flight" is a failure here, because the operation in flight is the one of the other runner.
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
	// The answer decides, so the other runner stops, and its late answer is dropped. But the server may still execute the request of that runner.
	if r.intent != nil {
		r.intent.unsure()
	}
	r.cancels[1-a.runner](errLost)
	go func() {
		late := <-r.answers
		late.discard()
	}()
	return true
}
