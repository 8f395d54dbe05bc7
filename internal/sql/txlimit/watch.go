package txlimit

import (
	"context"
	"math"
	"sync"
	"time"
)

// Watch ends a transaction that has reached a limit. A mutex orders the calls of its
// statements, its COMMIT and its end by time, so that each sees the ones before it.
// All methods of a nil Watch do nothing.
type Watch struct {
	limits Limits
	began  time.Time
	end    func()
	ended  context.Context    //nolint:containedctx // done when end has returned
	closed context.CancelFunc // of ended

	mu    sync.Mutex
	timer *time.Timer
	calls int // of the driver, under way
	held  bool
	since time.Time     // no call was under way, and it was held
	over  bool          // COMMIT has begun, or the limits were lifted: the transaction is not ended any more
	err   *TimeoutError // why no further call is made
}

// Start bounds a transaction from now on; it returns nil without limits. When the transaction
// has been idle for too long, or when all of its time is over, [Watch.Enter] and [Watch.Finish]
// fail from that moment on and end is called, once, on a goroutine of its own, to roll it back.
// It must do so through database/sql, which waits for a call that is under way. [Watch.Lift]
// must be called in the end.
func Start(limits Limits, end func()) *Watch {
	if limits == (Limits{}) {
		return nil
	}
	now := time.Now()
	w := &Watch{limits: limits, began: now, end: end}
	w.ended, w.closed = context.WithCancel(context.Background())
	w.mu.Lock()
	defer w.mu.Unlock()
	w.setTimer(now)
	return w
}

// Lift ends the limits. It returns a *[TimeoutError] if one was reached that has ended the
// transaction, and then not before that has been done; after nil it will not be.
func (w *Watch) Lift() error {
	if w == nil {
		return nil
	}
	if err := w.Finish(); err != nil {
		<-w.ended.Done()
		return err
	}
	return nil
}

// Ended is closed when a limit has ended the transaction; it is nil without limits.
func (w *Watch) Ended() <-chan struct{} {
	if w == nil {
		return nil
	}
	return w.ended.Done()
}

// OnEnd has f called, in a goroutine of its own, when a limit has ended the transaction, as
// [context.AfterFunc] does.
func (w *Watch) OnEnd(f func()) (stop func() bool) {
	if w == nil {
		return func() bool { return true }
	}
	return context.AfterFunc(w.ended, f)
}

// Finish ends the limits, as COMMIT must. It returns the error of a limit that was reached
// before.
func (w *Watch) Finish() error {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	w.over = true
	if w.timer != nil {
		w.timer.Stop()
	}
	return nil
}

// setTimer sets the timer for the next limit that may be reached. The lock is held.
func (w *Watch) setTimer(now time.Time) {
	const never = time.Duration(math.MaxInt64)
	d := never
	if w.limits.Whole > 0 {
		d = w.began.Add(w.limits.Whole).Sub(now)
	}
	switch {
	case w.limits.Idle == 0 || !w.held:
	case w.calls > 0: // it cannot have been idle for so long before that
		d = min(d, w.limits.Idle)
	default:
		d = min(d, w.since.Add(w.limits.Idle).Sub(now))
	}
	switch {
	case d == never:
	case w.timer == nil:
		w.timer = time.AfterFunc(d, w.check)
	default:
		w.timer.Reset(d)
	}
}

// Hold says whether a handler has the transaction, which may be idle.
func (w *Watch) Hold(held bool) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held = held; held && !w.over && w.err == nil {
		w.since = time.Now()
		w.setTimer(w.since)
	}
}

// check is called by the timer.
func (w *Watch) check() {
	if w.expire() {
		defer w.closed()
		w.end()
	}
}

// expire decides whether the transaction has to end, or else when to look again.
func (w *Watch) expire() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	switch {
	case w.over || w.err != nil:
		return false
	case w.limits.Whole > 0 && now.Sub(w.began) >= w.limits.Whole:
		w.err = &TimeoutError{limitWhole, w.limits.Whole}
	case w.limits.Idle > 0 && w.held && w.calls == 0 && now.Sub(w.since) >= w.limits.Idle:
		w.err = &TimeoutError{limitIdle, w.limits.Idle}
	default:
		w.setTimer(now)
		return false
	}
	return true
}

// Enter says that a call of the driver begins, and fails if it must not. One that closes rows
// always may.
func (w *Watch) Enter(closes bool) error {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil && !closes {
		return w.err
	}
	w.calls++
	return nil
}

// Leave says that the call has ended.
func (w *Watch) Leave() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls--
	w.since = time.Now()
}
