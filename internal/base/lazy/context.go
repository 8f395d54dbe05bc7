// Package lazy contains a context that is made only when a goroutine waits for its end. Most contexts end before this, and the
// creation is the largest part of their cost.
package lazy

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"
)

// Context behaves like the result of context.WithDeadline for Parent and Until. If Until is Never, it behaves like the
// result of context.WithCancelCause. Its users may see a late timer: if the time ends while no goroutine waits, the next
// event may end the context instead.
//
// The maker of the context calls Cancel at the end.
type Context struct {
	Parent context.Context //nolint:containedctx // it is a context
	Until  Moment

	made atomic.Pointer[made]
}

// made is the real context.
type made struct {
	context.Context //nolint:containedctx // it is a context itself

	stop context.CancelFunc      // nil: the context has no deadline
	quit context.CancelCauseFunc // nil: the context has a deadline
}

// unused is the real context of every Context that ended before one was made.
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
		// Another goroutine was faster, and its context counts.
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

// Cancel ends the context, and frees its resources. If the context has no deadline, cause is its cause, as with a
// [context.CancelCauseFunc].
func (c *Context) Cancel(cause error) {
	if cause == nil && c.Parent.Err() == nil && c.made.CompareAndSwap(nil, unused) {
		return
	}
	c.make().cancel(cause) // if the parent has ended, the cause of the parent counts
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

// Value implements [context.Context]. As soon as the real context exists, Value also answers the internal key of package
// context. So a derived context needs no goroutine, and has the cause of this context.
func (c *Context) Value(key any) any {
	if m := c.made.Load(); m != nil {
		if v := m.Value(key); v != nil || m != unused {
			return v
		}
	}
	return c.Parent.Value(key)
}

func (c *Context) String() string { return fmt.Sprint(c.Parent, ".Lazy") }

// Moment is a time of the monotonic clock. It costs half as much to read as [time.Now].
type Moment time.Duration

// Never comes after all other moments.
const Never = Moment(math.MaxInt64)

// epoch is the time from which moments are counted.
var epoch = time.Now()

// Now returns the present moment.
func Now() Moment { return Moment(time.Since(epoch)) }

// At returns the moment of t.
func At(t time.Time) Moment { return Moment(t.Sub(epoch)) }

// Add returns the moment d after m, or Never after an overflow. d must not be negative.
func (m Moment) Add(d time.Duration) Moment {
	if end := m + Moment(d); end >= m {
		return end
	}
	return Never
}

// Sub returns the time from n to m.
func (m Moment) Sub(n Moment) time.Duration { return time.Duration(m - n) }

// Over reports whether the moment m is past.
func (m Moment) Over() bool { return m != Never && Now() >= m }

// time returns m as a time of both clocks, as package context needs it. The wall clock may have been set since epoch, so
// time reads it now.
func (m Moment) time() time.Time {
	t := time.Now()
	return t.Add(m.Sub(At(t)))
}
