package retry

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"
)

// epoch is what now counts from.
var epoch = time.Now()

// now reads the monotonic clock alone, which costs half of what time.Now does.
func now() time.Duration { return time.Since(epoch) }

const never = time.Duration(math.MaxInt64)

// in returns when d has passed since start.
func in(start, d time.Duration) time.Duration {
	if end := start + d; end >= start {
		return end
	}
	return never
}

// bounded is what context.WithDeadline returns, but made only when somebody needs its
// channel or its end: most attempts are over before, and it is the better part of what a
// retry costs. To others it looks like one whose timer can be late: if time runs out
// while nobody looks, it may be what happens next that ends it.
type bounded struct {
	context.Context //nolint:containedctx // it is one

	until time.Duration // by now()
	made  atomic.Pointer[deadline]
}

// deadline is the real one.
type deadline struct {
	context.Context //nolint:containedctx // it is one

	cancel context.CancelFunc
}

// unused stands for all that were not made before their attempt was over.
var unused = func() *deadline {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return &deadline{ctx, cancel}
}()

func (b *bounded) make() *deadline {
	if d := b.made.Load(); d != nil {
		return d
	}
	ctx, cancel := context.WithDeadline(b.Context, b.time())
	d := &deadline{ctx, cancel}
	if !b.made.CompareAndSwap(nil, d) {
		cancel()
		return b.made.Load()
	}
	return d
}

// time returns when time is over. It needs the clock because that may have been set
// since epoch.
func (b *bounded) time() time.Time {
	t := time.Now()
	return t.Add(b.until - t.Sub(epoch))
}

// end is to be called when the attempt is over.
func (b *bounded) end() {
	if b.Context.Err() != nil {
		b.make() // with the caller's reason
	}
	if !b.made.CompareAndSwap(nil, unused) {
		b.made.Load().cancel()
	}
}

func (b *bounded) Deadline() (time.Time, bool) {
	if d := b.made.Load(); d != nil && d != unused {
		return d.Deadline()
	}
	t := b.time()
	if callers, ok := b.Context.Deadline(); ok && callers.Before(t) {
		return callers, true
	}
	return t, true
}

func (b *bounded) Done() <-chan struct{} { return b.make().Done() }

func (b *bounded) Err() error {
	if b.made.Load() == nil && b.Context.Err() == nil && now() < b.until {
		return nil
	}
	return b.make().Err()
}

// Value knows, as soon as there is one, the real context by what package context looks
// for: so what is derived from this one costs no goroutine, and has its cause.
func (b *bounded) Value(key any) any {
	if d := b.made.Load(); d != nil {
		if v := d.Value(key); v != nil {
			return v
		}
	}
	return b.Context.Value(key)
}

func (b *bounded) String() string { return fmt.Sprint(b.Context, ".WithDeadline") }
