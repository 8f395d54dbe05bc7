package simulate

import (
	"math/rand/v2"
	"time"

	"github.com/oncelib/once/retry"
)

// client turns intents into attempts, as retryhttp.Transport does.
type client struct {
	*clock

	policy  *Policy
	random  *rand.Rand
	service interface {
		ask(r *request, budget time.Duration)
	}
	sent func() // called for each attempt
}

// intent is something that a client wants to happen once.
type intent struct {
	of    *process
	start time.Duration
	stuck bool
	tries int
	done  func(ok bool)

	executing, executed bool // the state of its work in the service
}

func (c *client) begin(i *intent) {
	i.start = c.now
	i.of.saved = min(100, i.of.saved+0.2)
	i.of.flying++
	done := i.done
	i.done = func(ok bool) {
		i.of.flying--
		done(ok)
	}
	c.attempt(i)
}

// total is the default of retry.Policy.Total, which no policy here changes.
const total = 10 * time.Second

func (c *client) attempt(i *intent) {
	p := &i.of.policy
	told := func(retry.Health) {}
	if p.Breaker != nil {
		done, err := p.Breaker.Allow()
		if err != nil {
			i.done(false)
			return
		}
		told = done
	}
	i.tries++
	c.sent()
	again := i.tries > 1
	if again {
		i.of.retrying++
		i.of.flying++
	}
	began, number := c.now, p.Budget.Begin(c.now)
	r := &request{intent: i}
	over := false
	r.answer = func(class retry.Class, after time.Duration) {
		if over {
			return
		}
		over = true
		if again {
			i.of.retrying--
			i.of.flying--
		}
		if class == good {
			told(retry.HealthGood)
			c.succeeded(i, number)
			return
		}
		told(retry.HealthBad)
		if !r.gone {
			number = 0 // an answered attempt is not a silent one
		}
		c.failed(i, class, after, number, began)
	}
	patience := p.Timeout
	if total-(c.now-i.start) < patience {
		patience = max(1, total-(c.now-i.start))
	}
	c.after(patience, func() {
		r.gone = true
		r.answer(retry.ClassUnknown, 0)
	})
	c.service.ask(r, patience)
}

func (c *client) succeeded(i *intent, number int64) {
	i.of.policy.Budget.Answered(number)
	i.done(true)
}

// failed lets the policy decide what follows.
func (c *client) failed(i *intent, class retry.Class, after time.Duration, silent int64, began time.Duration) {
	f := retry.FailedAttempt{Attempt: i.tries, Class: class, After: after, Elapsed: c.now - i.start, Silent: silent, Begun: began, Now: c.now, Random: rigid}
	if !c.policy.rigid {
		f.Random = c.random.Float64()
	}
	wait, stop := i.of.policy.Next(f)
	if stop != "" {
		i.done(false)
		return
	}
	c.after(wait, func() {
		if !c.policy.allowed(i.of) {
			i.done(false)
			return
		}
		c.attempt(i)
	})
}
