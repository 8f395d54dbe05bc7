// Package adaptive measures how many requests a server can serve at the same time. It adapts the adaptive limiter of [failsafe-go] to the interface
// limit.Capacity.
//
//	l := limit.New(limit.Config{Capacity: adaptive.New(4, 200), Queue: 20})
//
// When requests begin to take longer than before, the capacity offers fewer slots (each request that is served occupies one slot). When the times
// become normal again, the capacity offers more slots. Package limit still manages the queue, the tenants and the answers to clients.
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

// New returns a capacity whose number of slots stays between the parameters least and most. It begins with 20 slots, or with the nearest allowed
// number. New panics if least is below 1 or above most.
func New(least, most int) *Capacity {
	if least < 1 || most < least {
		panic(fmt.Sprintf("adaptive: New(%d, %d): the first limit must be at least 1, and must not be larger than the second limit.\nTry: adaptive.New(4, 200)", least, most))
	}
	first := min(max(least, 20), most)
	return Of(adaptivelimiter.NewBuilder[any]().WithLimits(uint(least), uint(most), uint(first)).Build())
}

// Of returns a capacity that uses limiter, for settings that New does not have. The capacity never waits for a permit of limiter: package limit does
// the waiting.
func Of(limiter adaptivelimiter.AdaptiveLimiter[any]) *Capacity { return &Capacity{limiter} }

// Acquire takes a slot if one is free. If useful is false when the slot is released, the duration of the request is not used as a measurement.
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
