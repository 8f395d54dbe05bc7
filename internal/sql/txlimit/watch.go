package txlimit

import (
	"context"
	"math"
	"sync"
	"time"
)

// Watch ends a transaction that has reached a limit. A mutex orders the calls of its statements, its COMMIT and its end, so that
// each sees the earlier ones. The methods of a nil Watch do nothing.
type Watch struct {
	limits Limits
	began  time.Time
	end    func()
	ended  context.Context    //nolint:containedctx // ends when end has returned
	closed context.CancelFunc // ends the context ended

	mu    sync.Mutex
	timer *time.Timer
	calls int // the number of running calls of the driver
	held  bool
	since time.Time     // since when no call is running while the transaction is held
	over  bool          // COMMIT has begun, or the limits were lifted: no limit ends the transaction any more
	err   *TimeoutError // why no further call is allowed
}

// Start limits a transaction from now on. It returns nil without limits. When the transaction was idle for too long, or when its
// whole time has passed, [Watch.Enter] and [Watch.Finish] fail from then on. Then end is called once, in a separate
// goroutine, to roll the transaction back. end must use database/sql, which waits for a running call. The caller must call
// [Watch.Lift] at the end.
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

// Lift ends the limits. If a limit has ended the transaction, Lift waits until this is done and returns a *[TimeoutError]. After
// nil, no limit ends the transaction.
func (w *Watch) Lift() error {
	if w == nil {
		return nil
	}
	// If a limit has won, the rollback may still run, and the caller must not use the connection before its end.
	if err := w.Finish(); err != nil {
		<-w.ended.Done()
		return err
	}
	return nil
}

// Ended returns a channel that is closed when a limit has ended the transaction. It is nil without limits.
func (w *Watch) Ended() <-chan struct{} {
	if w == nil {
		return nil
	}
	return w.ended.Done()
}

// OnEnd makes f run in a separate goroutine when a limit has ended the transaction, as [context.AfterFunc] does.
func (w *Watch) OnEnd(f func()) (stop func() bool) {
	if w == nil {
		return func() bool { return true }
	}
	return context.AfterFunc(w.ended, f)
}

// Finish ends the limits, before a COMMIT. It returns the error of a limit that was reached before.
func (w *Watch) Finish() error {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	// A limit that was reached first wins: its rollback is on the way, so the caller must not commit.
	if w.err != nil {
		return w.err
	}
	w.over = true
	if w.timer != nil {
		w.timer.Stop()
	}
	return nil
}

// setTimer sets the timer for the next limit that may be reached. The caller holds the lock.
func (w *Watch) setTimer(now time.Time) {
	const never = time.Duration(math.MaxInt64)
	d := never
	if w.limits.Whole > 0 {
		d = w.began.Add(w.limits.Whole).Sub(now)
	}
	switch {
	case w.limits.Idle == 0 || !w.held:
	case w.calls > 0: // the transaction can reach the idle limit only after a running call has ended
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

// Hold says whether a handler has the transaction. Only then the transaction can be idle.
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

// check runs when the timer fires.
func (w *Watch) check() {
	if w.expire() {
		defer w.closed()
		w.end()
	}
}

// expire decides whether the transaction must end. Otherwise it sets the timer again.
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

// Enter says that a call of the driver begins. It fails if a limit was reached. A call that closes rows is always allowed.
func (w *Watch) Enter(closes bool) error {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	// Rows must be closed even then, because the rollback waits for them.
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
	// The transaction is idle from here on, if a handler has it.
	w.since = time.Now()
}
