package once

import (
	"context"
	"errors"
	"sync"
	"time"
)

// eventSlowHandler is an event that occurs only if Config.SlowHandler is set.
const eventSlowHandler EventType = "slow_handler"

var errHolding = errors.New("a handler has been running for longer than Config.SlowHandler, and holds a connection of the pool and its locks. Try: move calls to other services out of the transaction, with package lease; see docs/holding.md")

// watch sends an event to the observer if the handler still runs after Config.SlowHandler. A handler that hangs never reaches the last event of its call. stop
// ends the watch: no event follows.
func (c *call[TX]) watch(ctx context.Context) (stop func()) {
	e := Event{Type: eventSlowHandler, Err: errHolding, Runs: c.runs, Handler: c.e.cfg.SlowHandler}
	if !c.e.shows(e) {
		return func() {}
	}
	e = c.named(e)
	var mu sync.Mutex
	over := false
	alarm := time.AfterFunc(e.Handler, func() {
		mu.Lock()
		defer mu.Unlock()
		if !over {
			e.Total = time.Since(c.start)
			c.e.cfg.Observer.Observe(ctx, e)
		}
	})
	return func() {
		alarm.Stop()
		mu.Lock()
		defer mu.Unlock()
		over = true
	}
}
