package sqlguard

import (
	"fmt"
	"math"
	"sync"
	"time"
)

// Limits of a transaction whose database has no server to set them. Zero is no limit.
type Limits struct {
	Idle      time.Duration // between two statements while it is held, see Hold; a result that is not being read is none
	Statement time.Duration // for one statement: the time that the driver takes for it and for its rows
	Whole     time.Duration // for all of it, also in the middle of a statement
}

// TimeoutError says which of its [Limits] a transaction has reached.
type TimeoutError struct {
	Limit string // idle, statement or whole
	After time.Duration
}

func (e *TimeoutError) Error() string {
	switch e.Limit {
	case limitIdle:
		return fmt.Sprintf("terminating the transaction due to idle-in-transaction timeout: no statement for %v. Try: a longer Timeouts.Idle, or nothing slow between two statements", e.After)
	case limitStatement:
		return fmt.Sprintf("canceling statement due to statement timeout: %v. Try: a longer Timeouts.Statement, or an index", e.After)
	}
	return fmt.Sprintf("terminating the transaction due to transaction timeout: %v", e.After)
}

// SQLState is what PostgreSQL says in its place.
func (e *TimeoutError) SQLState() string {
	return map[string]string{limitIdle: "25P03", limitStatement: "57014", limitWhole: "25P04"}[e.Limit]
}

const (
	limitIdle      = "idle"
	limitStatement = "statement"
	limitWhole     = "whole"
)

// Whole reports whether the limit was that of the whole transaction.
func (e *TimeoutError) Whole() bool { return e.Limit == limitWhole }

// leash ends a transaction that has reached a limit. Between the calls of its statements,
// its COMMIT and its end by time the mutex decides: what comes second finds the other one
// there. (What is rolled back already is rolled back again by nobody: see transaction.end.)
type leash struct {
	limits Limits
	began  time.Time
	end    func()
	ended  chan struct{} // closed when end has returned

	mu    sync.Mutex
	timer *time.Timer
	calls int // of the driver, under way
	held  bool
	since time.Time     // no call was under way, and it was held
	over  bool          // COMMIT has begun, or it was lifted: there is nothing to be ended any more
	err   *TimeoutError // why no further call is made
}

// Limit bounds the transaction from now on. When it has been idle for too long, or when all
// of its time is over, its statements and COMMIT are refused from that moment on and end is
// called, once, on a goroutine of its own, to roll it back. It must do so through
// database/sql, which waits for a call that is under way. [Txn.Lift] must be called in the
// end.
func (t *Txn) Limit(limits Limits, end func()) {
	if limits == (Limits{}) {
		return
	}
	now := time.Now()
	l := &leash{limits: limits, began: now, end: end, ended: make(chan struct{})}
	t.leash.Store(l)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.arm(now)
}

// Lift ends the limits. It returns a *[TimeoutError] if one was reached that has ended the
// transaction, and then not before that has been done; after nil it will not be.
func (t *Txn) Lift() error {
	l := t.leash.Load()
	if l == nil {
		return nil
	}
	if err := l.finish(); err != nil {
		<-l.ended
		return err
	}
	return nil
}

// Ended is closed when a limit has ended the transaction; it is nil without limits.
func (t *Txn) Ended() <-chan struct{} {
	if l := t.leash.Load(); l != nil {
		return l.ended
	}
	return nil
}

// finish says that the limits are over, unless one was reached before.
func (l *leash) finish() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	l.over = true
	if l.timer != nil {
		l.timer.Stop()
	}
	return nil
}

// arm sets the timer, if there is something to look for. The lock is held.
func (l *leash) arm(now time.Time) {
	const never = time.Duration(math.MaxInt64)
	d := never
	if l.limits.Whole > 0 {
		d = l.began.Add(l.limits.Whole).Sub(now)
	}
	switch {
	case l.limits.Idle == 0 || !l.held:
	case l.calls > 0: // it will not have been idle before
		d = min(d, l.limits.Idle)
	default:
		d = min(d, l.since.Add(l.limits.Idle).Sub(now))
	}
	switch {
	case d == never:
	case l.timer == nil:
		l.timer = time.AfterFunc(d, l.look)
	default:
		l.timer.Reset(d)
	}
}

// hold says whether somebody has the transaction who may be idle.
func (l *leash) hold(held bool) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held = held; held && !l.over && l.err == nil {
		l.since = time.Now()
		l.arm(l.since)
	}
}

// look is called by the timer.
func (l *leash) look() {
	if l.expire() {
		defer close(l.ended)
		l.end()
	}
}

// expire decides whether the transaction has to end, or else when to look again.
func (l *leash) expire() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	switch {
	case l.over || l.err != nil:
		return false
	case l.limits.Whole > 0 && now.Sub(l.began) >= l.limits.Whole:
		l.err = &TimeoutError{limitWhole, l.limits.Whole}
	case l.limits.Idle > 0 && l.held && l.calls == 0 && now.Sub(l.since) >= l.limits.Idle:
		l.err = &TimeoutError{limitIdle, l.limits.Idle}
	default:
		l.arm(now)
		return false
	}
	return true
}

// enter says that a call of the driver begins, unless it must not. Closing is always allowed.
func (l *leash) enter(closes bool) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil && !closes {
		return l.err
	}
	l.calls++
	return nil
}

// leave says that it has ended.
func (l *leash) leave() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls--
	l.since = time.Now()
}
