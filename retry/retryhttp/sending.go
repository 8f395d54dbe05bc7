package retryhttp

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/oncelib/once/retry"
)

// sending is the context of one attempt. What ends it is made when somebody needs it: a
// base that waits for nothing does not.
type sending struct {
	context.Context //nolint:containedctx // of whom it is made for

	until   time.Time // after which the header of the answer is late; zero: never
	made    atomic.Pointer[ending]
	resends int
	conns   atomic.Int32            // that net/http has taken for it
	values  [3]string               // of header fields
	quit    context.CancelCauseFunc // of the runner that makes it; nil: none

	gaveUp *retry.Error // set when its answer is the last
	call   *call
	code   string // of a problem
}

// ending is what can end an attempt.
type ending struct {
	context.Context //nolint:containedctx // it is one

	cancel context.CancelCauseFunc
	timer  *time.Timer // nil: it was late when it was made, or there was an answer
}

var (
	// answered stands for one that was not made before the header of the answer was there.
	answered = new(ending)

	// unused stands for one that was not made before the attempt was over.
	unused = func() *ending {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(nil)
		return &ending{Context: ctx, cancel: cancel}
	}()
)

func (s *sending) make() *ending {
	for {
		old := s.made.Load()
		if old != nil && old != answered {
			return old
		}
		e := new(ending)
		e.Context, e.cancel = context.WithCancelCause(s.Context) //nolint:fatcontext // the loop is a race for one of them
		if old == nil && !s.until.IsZero() {
			if left := time.Until(s.until); left > 0 {
				e.timer = time.AfterFunc(left, func() { e.cancel(errSlow) })
			} else {
				e.cancel(errSlow)
			}
		}
		if s.made.CompareAndSwap(old, e) {
			return e
		}
		if e.timer != nil {
			e.timer.Stop()
		}
		e.cancel(nil)
	}
}

func (s *sending) late() bool { return !s.until.IsZero() && time.Until(s.until) <= 0 }

// inTime is to be called when there is an answer, or none will come: from then on there is
// no hurry. It reports whether that was in time.
func (s *sending) inTime() bool {
	if s.until.IsZero() {
		return true
	}
	if s.made.Load() == nil {
		if s.late() {
			return false
		}
		if s.made.CompareAndSwap(nil, answered) {
			return true
		}
	}
	timer := s.made.Load().timer
	return timer != nil && timer.Stop()
}

// cancel ends the attempt.
func (s *sending) cancel(cause error) {
	s.end(cause)
	if s.quit != nil {
		s.quit(cause)
	}
}

func (s *sending) end(cause error) {
	if cause != nil || s.Context.Err() != nil {
		s.make().cancel(cause)
		return
	}
	for {
		old := s.made.Load()
		if old != nil && old != answered {
			old.cancel(nil)
			return
		}
		if s.made.CompareAndSwap(old, unused) {
			return
		}
	}
}

func (s *sending) Done() <-chan struct{} { return s.make().Done() }

func (s *sending) Err() error {
	e := s.made.Load()
	if e != nil && e != answered {
		return e.Err()
	}
	if s.Context.Err() == nil && (e == answered || !s.late()) {
		return nil
	}
	return s.make().Err()
}

type keyOfSending struct{}

// Value finds, as soon as there is one, the ending by what package context looks for: so
// what is derived from it costs no goroutine, and has its cause.
func (s *sending) Value(key any) any {
	if key == (keyOfSending{}) {
		return s
	}
	if e := s.made.Load(); e != nil && e != answered {
		if v := e.Value(key); v != nil || e != unused {
			return v
		}
	}
	return s.Context.Value(key)
}

func (s *sending) String() string { return "retryhttp.attempt" }

// ResendCount returns how often the request of an attempt has been sent before, by ctx,
// which is the context of the request that Base is given. It is what OpenTelemetry calls
// http.request.resend_count.
func ResendCount(ctx context.Context) int {
	if s, ok := ctx.Value(keyOfSending{}).(*sending); ok {
		return s.resends
	}
	return 0
}
