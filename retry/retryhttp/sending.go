package retryhttp

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncelib/once/internal/base/lazy"
	"github.com/oncelib/once/retry"
)

// sending is the context of one attempt, which lasts until the body of its answer has been
// read. The header must be there before the limit.
type sending struct {
	lazy.Context

	limit atomic.Int64 // a [lazy.Moment]; Never: the header is there, has all the time, or has the timer
	mu    sync.Mutex   // guards the fields below
	timer *time.Timer  // nil: no caller has waited

	watch watch

	resends int
	values  [3]string               // of header fields
	quit    context.CancelCauseFunc // of the runner that makes it; nil: none

	body    handed       // of its answer, if that is the last
	handing handing      // ditto
	gaveUp  *retry.Error // ditto
	call    *call
	code    string // of a problem
}

// look ends the attempt if its time limit is over. If waits is true, look starts a timer that ends the attempt then.
func (s *sending) look(waits bool) {
	limit := lazy.Moment(s.limit.Load())
	if limit == lazy.Never {
		return
	}
	left := limit.Sub(lazy.Now())
	if left > 0 && !waits {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.limit.Load() == int64(lazy.Never): // another goroutine was faster
	case left <= 0:
		s.Cancel(errSlow)
	default:
		s.timer = time.AfterFunc(left, func() { s.Cancel(errSlow) })
		s.limit.Store(int64(lazy.Never))
	}
}

// inTime is called when the attempt has ended, with or without an answer. From then on the time limit does not apply. inTime reports whether the
// attempt has ended before its limit.
func (s *sending) inTime() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.timer != nil:
		return s.timer.Stop()
	case lazy.Moment(s.limit.Load()).Over():
		return false
	}
	s.limit.Store(int64(lazy.Never))
	return true
}

// cancel is Cancel, and the end of the runner as well.
func (s *sending) cancel(cause error) {
	s.Cancel(cause)
	if s.quit != nil {
		s.quit(cause)
	}
}

func (s *sending) Done() <-chan struct{} {
	s.look(true)
	return s.Context.Done()
}

func (s *sending) Err() error {
	s.look(false)
	return s.Context.Err()
}

type keyOfSending struct{}

func (s *sending) Value(key any) any {
	switch key {
	case keyOfSending{}:
		return s
	case keyOfTrace:
		return s.watched()
	}
	return s.Context.Value(key)
}

func (s *sending) String() string { return "retryhttp.attempt" }

// ResendCount returns how often the request of an attempt has been sent before: 0 for the first attempt. ctx is the context of a request that
// [Transport].Base receives. OpenTelemetry calls this number http.request.resend_count.
func ResendCount(ctx context.Context) int {
	if s, ok := ctx.Value(keyOfSending{}).(*sending); ok {
		return s.resends
	}
	return 0
}
