package txlimit

import (
	"context"
	"errors"
	"time"
)

// Statement is the time limit of one statement. A nil Statement has no limit.
type Statement struct {
	ctx    context.Context //nolint:containedctx // the context of the statement, as long as it has rows
	cancel context.CancelCauseFunc
	limit  time.Duration
	left   time.Duration
	began  time.Time
	timer  *time.Timer
}

// Statement returns the context for a statement, and its time limit if it has one.
func (w *Watch) Statement(ctx context.Context) (context.Context, *Statement) {
	if w == nil || w.limits.Statement == 0 {
		return ctx, nil
	}
	s := &Statement{limit: w.limits.Statement, left: w.limits.Statement}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	return s.ctx, s
}

var errTimeOver = errors.New("the statement has reached its time limit")

// Start starts the clock for one call of the driver.
func (s *Statement) Start() {
	if s == nil {
		return
	}
	s.began = time.Now()
	s.timer = time.AfterFunc(s.left, func() { s.cancel(errTimeOver) })
}

// Stop stops the clock, and returns the error of the call. A result of the call is used, even if it is late. But a driver that cannot
// interrupt the work between two rows may return the next row too late; then Stop returns a timeout.
func (s *Statement) Stop(err error, row bool) error {
	if s == nil {
		return err
	}
	// Only the time of the driver counts, not the time between two calls.
	if s.timer.Stop() {
		s.left -= time.Since(s.began)
	}
	// A row that came too late is refused: the driver could not interrupt its work.
	if (err != nil || row) && errors.Is(context.Cause(s.ctx), errTimeOver) {
		return &TimeoutError{limitStatement, s.limit}
	}
	return err
}

// Release frees the resources of s.
func (s *Statement) Release() {
	if s != nil {
		s.cancel(nil)
	}
}
