package sqlguard

import (
	"context"
	"errors"
	"time"
)

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
