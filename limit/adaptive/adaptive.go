// Package adaptive measures how many requests a server can serve at the same time. The package adapts the adaptive limiter of the library
// failsafe-go to the interface limit.Capacity.
//
//	l := limit.New(limit.Config{Capacity: adaptive.New(4, 200), Queue: 20})
//
// When requests begin to take longer than before, the capacity offers fewer slots (each request that is served occupies one slot). When requests
// take the normal time again, the capacity offers more slots. Package limit still manages the queue, the tenants and the answers to clients.
//
// [failsafe-go]: https://github.com/failsafe-go/failsafe-go
package adaptive

import (
	"fmt"

	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
)

// Capacity is a limit.Capacity whose number of slots depends on how long requests take.
type Capacity struct {
	limiter adaptivelimiter.AdaptiveLimiter[any]
}

// New returns a capacity whose number of slots stays between the parameters least and most. The capacity begins with 20 slots, or with the
// allowed number of slots that is nearest to 20. New panics if least is below 1 or above most.
func New(least, most int) *Capacity {
	if least < 1 || most < least {
		panic(fmt.Sprintf("adaptive: New(%d, %d): the first limit must be at least 1, and must not be larger than the second limit.\nTry: adaptive.New(4, 200)", least, most))
	}
	first := min(max(least, 20), most)
	return Of(adaptivelimiter.NewBuilder[any]().WithLimits(uint(least), uint(most), uint(first)).Build())
}

// Of returns a capacity that uses the parameter limiter. Use Of if you need settings of the limiter that New does not have. The capacity never waits
// for a permit of limiter, because requests wait in the queue of package limit.
func Of(limiter adaptivelimiter.AdaptiveLimiter[any]) *Capacity { return &Capacity{limiter} }

// Acquire takes a slot if a slot is free. If the caller passes useful = false to the function release, the limiter does not measure the
// duration of this request.
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

// Limit returns the current number of slots.
func (c *Capacity) Limit() int { return c.limiter.Limit() }
