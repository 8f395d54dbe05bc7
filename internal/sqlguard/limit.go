package sqlguard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Limits of a transaction whose database has no server to set them. Zero is no limit.
type Limits struct {
	Idle      time.Duration // between two statements; a result that is not being read is none
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
// there.
type leash struct {
	limits Limits
	began  time.Time
	end    func()
	ended  chan struct{} // closed when end has returned

	mu    sync.Mutex
	timer *time.Timer
	calls int           // of the driver, under way
	since time.Time     // no call was under way
	over  bool          // by COMMIT or ROLLBACK: there is nothing to be ended any more
	err   *TimeoutError // why no further call is made
}

// Limit bounds the transaction from now on. When it has been idle for too long, or when all
// of its time is over, its statements and COMMIT are refused from that moment on and end is
// called, once, on a goroutine of its own, to roll it back. It must do so through
// database/sql, which waits for a call that is under way. [Txn.Lift] must be called in the
// end. It is the owner's to call, before he lends the transaction to anybody.
func (t *Txn) Limit(limits Limits, end func()) {
	if limits == (Limits{}) {
		return
	}
	now := time.Now()
	l := &leash{limits: limits, began: now, since: now, end: end, ended: make(chan struct{})}
	t.leash.Store(l)
	l.mu.Lock()
	defer l.mu.Unlock()
	if d, ok := l.next(now); ok {
		l.timer = time.AfterFunc(d, l.look)
	}
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

// finish says that the transaction is about to end by itself, unless it is too late for that.
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

// next is when to look. The lock is held.
func (l *leash) next(now time.Time) (d time.Duration, ok bool) {
	since := l.since
	if l.calls > 0 { // it will not be idle before now
		since = now
	}
	idle, whole := since.Add(l.limits.Idle).Sub(now), l.began.Add(l.limits.Whole).Sub(now)
	switch {
	case l.limits.Idle == 0:
		return whole, l.limits.Whole > 0
	case l.limits.Whole == 0:
		return idle, true
	}
	return min(idle, whole), true
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
	case l.over:
		return false
	case l.limits.Whole > 0 && now.Sub(l.began) >= l.limits.Whole:
		l.err = &TimeoutError{limitWhole, l.limits.Whole}
	case l.limits.Idle > 0 && l.calls == 0 && now.Sub(l.since) >= l.limits.Idle:
		l.err = &TimeoutError{limitIdle, l.limits.Idle}
	default:
		d, _ := l.next(now)
		l.timer.Reset(d)
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

// budget is the time of one statement. A nil one has no end.
type budget struct {
	ctx    context.Context //nolint:containedctx // of the statement, for as long as it has rows
	cancel context.CancelCauseFunc
	limit  time.Duration
	left   time.Duration
	began  time.Time
	timer  *time.Timer
}

// budget returns the context for a statement, and its budget if it has one.
func (l *leash) budget(ctx context.Context) (context.Context, *budget) {
	if l == nil || l.limits.Statement == 0 {
		return ctx, nil
	}
	b := &budget{limit: l.limits.Statement, left: l.limits.Statement}
	b.ctx, b.cancel = context.WithCancelCause(ctx)
	return b.ctx, b
}

var errBudget = errors.New("the statement has taken its time")

// start lets the time run, for one call of the driver.
func (b *budget) start() {
	if b == nil {
		return
	}
	b.began = time.Now()
	b.timer = time.AfterFunc(b.left, func() { b.cancel(errBudget) })
}

// stop stops it. The result of a call is taken as it is if there is one; but a driver that
// cannot interrupt what goes on between two rows has come late with the next one.
func (b *budget) stop(err error, row bool) error {
	if b == nil {
		return err
	}
	if b.timer.Stop() {
		b.left -= time.Since(b.began)
	}
	if (err != nil || row) && errors.Is(context.Cause(b.ctx), errBudget) {
		return &TimeoutError{limitStatement, b.limit}
	}
	return err
}

// free frees what the budget holds.
func (b *budget) free() {
	if b != nil {
		b.cancel(nil)
	}
}

// call is one call of the driver for a statement under t.
type call struct {
	leash  *leash
	budget *budget
}

// join begins a call for a statement under t.
func (k *call) join(t *Txn, query string) error {
	k.leash = t.leash.Load()
	if err := k.leash.enter(false); err != nil {
		return t.refuse(query, err)
	}
	return nil
}

// begin begins the call that runs a statement.
func (c *conn) begin(ctx context.Context, t *Txn, query string) (within context.Context, k call, err error) {
	if err := k.join(t, query); err != nil {
		return nil, k, err
	}
	ctx = c.within(ctx, query)
	if !owns(ctx) {
		ctx, k.budget = k.leash.budget(ctx)
	}
	k.budget.start()
	return ctx, k, nil
}

// end ends it. The budget goes on with the rows, if there are any.
func (k call) end(err error, rows bool) error {
	err = k.budget.stop(err, false)
	if !rows || err != nil {
		k.budget.free()
	}
	k.leash.leave()
	return err
}

// again is another call for the rows of the same statement.
func (k call) again(closes bool, run func() error) error {
	if k.leash == nil {
		return run()
	}
	if err := k.leash.enter(closes); err != nil {
		return err
	}
	defer k.leash.leave()
	if closes {
		defer k.budget.free()
		return run()
	}
	k.budget.start()
	return k.budget.stop(run(), true)
}
