// Package adaptive finds out how many requests a server can serve at the same time: the
// adaptive limiter of [failsafe-go], as a capacity of package limit.
//
//	l := limit.New(limit.Config{Capacity: adaptive.New(4, 200), Queue: 20})
//
// When requests begin to take longer than before, it offers fewer places; otherwise it offers
// more again. Queue, tenants and the answers to clients remain with package
// limit.
//
// [failsafe-go]: https://github.com/failsafe-go/failsafe-go
package adaptive

import (
	"fmt"

	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
)

// Capacity is a limit.Capacity.
type Capacity struct {
	limiter adaptivelimiter.AdaptiveLimiter[any]
}

// New returns a capacity between least and most, which begins with least or 20,
// whichever is more. It panics if least is below 1 or above most.
func New(least, most int) *Capacity {
	if least < 1 || most < least {
		panic(fmt.Sprintf("adaptive: New(%d, %d): at least 1, and no more than the most.\nTry: adaptive.New(4, 200)", least, most))
	}
	first := min(max(least, 20), most)
	return Of(adaptivelimiter.NewBuilder[any]().WithLimits(uint(least), uint(most), uint(first)).Build())
}

// Of returns the capacity of a limiter with settings of its own. It is only asked for
// permits that are there: waiting is up to package limit.
func Of(limiter adaptivelimiter.AdaptiveLimiter[any]) *Capacity { return &Capacity{limiter} }

// Acquire takes a place if one is free. The duration of a request that did not run to its end
// is not measured.
func (c *Capacity) Acquire() (release func(useful bool), ok bool) {
	permit, ok := c.limiter.TryAcquirePermit()
	if !ok {
		return nil, false
	}
	return func(useful bool) {
		if useful {
			permit.Record()
		} else {
			permit.Drop()
		}
	}, true
}

// Limit returns how many places there are now.
func (c *Capacity) Limit() int { return c.limiter.Limit() }
