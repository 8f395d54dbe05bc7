// Package lazy has a context that is made only when a goroutine waits for its end. Most contexts end
// before that, and making them is the larger part of their cost.
package lazy

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"
)

// Context is what context.WithDeadline returns for Parent and Until, or, if Until is Never,
// the result of context.WithCancelCause. To its users it looks like a context whose timer can be
// late: if time runs out while no goroutine looks, the next event may end it instead.
//
// Its maker calls Cancel in the end.
type Context struct {
	Parent context.Context //nolint:containedctx // it is a context
	Until  Moment

	made atomic.Pointer[made]
}

// made is the real one.
type made struct {
	context.Context //nolint:containedctx // it is a context itself

	stop context.CancelFunc      // nil: it has no deadline
	quit context.CancelCauseFunc // nil: it has one
}

// unused is the real context of every Context that was over before one was made.
var unused = func() *made {
	ctx, quit := context.WithCancelCause(context.Background())
	quit(nil)
	return &made{Context: ctx, quit: quit}
}()

func (c *Context) make() *made {
	if m := c.made.Load(); m != nil {
		return m
	}
	m := new(made)
	if c.Until == Never {
		m.Context, m.quit = context.WithCancelCause(c.Parent)
	} else {
		m.Context, m.stop = context.WithDeadline(c.Parent, c.Until.time())
	}
	if !c.made.CompareAndSwap(nil, m) {
		m.cancel(nil)
		return c.made.Load()
	}
	return m
}

func (m *made) cancel(cause error) {
	if m.stop != nil {
		m.stop()
	} else {
		m.quit(cause)
	}
}

// Cancel ends the context, and frees its resources. Without a deadline its cause is the given one,
// if any, as with a [context.CancelCauseFunc].
func (c *Context) Cancel(cause error) {
	if cause == nil && c.Parent.Err() == nil && c.made.CompareAndSwap(nil, unused) {
		return
	}
	c.make().cancel(cause) // or it has ended with its parent, and has the parent's cause
}

// Deadline implements [context.Context].
func (c *Context) Deadline() (time.Time, bool) {
	if m := c.made.Load(); m != nil && m != unused {
		return m.Deadline()
	}
	parents, ok := c.Parent.Deadline()
	if c.Until == Never {
		return parents, ok
	}
	if t := c.Until.time(); !ok || !parents.Before(t) {
		return t, true
	}
	return parents, true
}

// Done implements [context.Context].
func (c *Context) Done() <-chan struct{} { return c.make().Done() }

// Err implements [context.Context].
func (c *Context) Err() error {
	if c.made.Load() == nil && c.Parent.Err() == nil && !c.Until.Over() {
		return nil
	}
	return c.make().Err()
}

// Value implements [context.Context]. As soon as the real context exists, it also answers the key
// by which package context looks for it: so a context derived from this one costs no goroutine,
// and has its cause.
func (c *Context) Value(key any) any {
	if m := c.made.Load(); m != nil {
		if v := m.Value(key); v != nil || m != unused {
			return v
		}
	}
	return c.Parent.Value(key)
}

func (c *Context) String() string { return fmt.Sprint(c.Parent, ".Lazy") }

// Moment is a time by the monotonic clock alone. To read that costs half of what
// [time.Now] does.
type Moment time.Duration

// Never comes after all other moments.
const Never = Moment(math.MaxInt64)

// epoch is what moments count from.
var epoch = time.Now()

// Now returns the present moment.
func Now() Moment { return Moment(time.Since(epoch)) }

// At returns the moment of t.
func At(t time.Time) Moment { return Moment(t.Sub(epoch)) }

// Add returns the moment d after m, or Never if it would overflow. d is not negative.
func (m Moment) Add(d time.Duration) Moment {
	if end := m + Moment(d); end >= m {
		return end
	}
	return Never
}

// Sub returns the time from n to m.
func (m Moment) Sub(n Moment) time.Duration { return time.Duration(m - n) }

// Over reports whether m has come.
func (m Moment) Over() bool { return m != Never && Now() >= m }

// time returns m as package context wants it. It needs the other clock because that may
// have been set since epoch.
func (m Moment) time() time.Time {
	t := time.Now()
	return t.Add(m.Sub(At(t)))
}
