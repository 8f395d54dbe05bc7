package retryhttp

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncelib/once/internal/base/lazy"
	"github.com/oncelib/once/retry"
)

// sending is the context of one attempt. It ends when the body of the answer was read. The header of the answer must arrive before the limit.
type sending struct {
	lazy.Context

	limit atomic.Int64 // a [lazy.Moment]; Never means that the header has arrived, that there is no limit, or that the timer watches the limit
	mu    sync.Mutex   // guards the fields below
	timer *time.Timer  // nil if no goroutine has waited for the end of the context

	watch watch

	resends int
	values  [3]string               // the values of header fields, without an allocation for each
	quit    context.CancelCauseFunc // ends the runner of a race; nil outside of a race

	body    handed       // the body of the answer, if the caller gets this answer
	handing handing      // the context of the answer's request, if the caller gets this answer
	gaveUp  *retry.Error // why no attempt followed, if the caller gets this answer
	call    *call
	code    string // the code of the problem document
}

// look ends the attempt if its time has passed. If waits is true, look starts a timer that ends the attempt at that time.
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
	case s.limit.Load() == int64(lazy.Never): // another goroutine has already set the timer
	case left <= 0:
		s.Cancel(errSlow)
	default:
		s.timer = time.AfterFunc(left, func() { s.Cancel(errSlow) })
		s.limit.Store(int64(lazy.Never))
	}
}

// inTime is called when the attempt has ended, with or without an answer. It switches the time limit off, and reports whether the attempt has ended
// before its limit.
func (s *sending) inTime() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.timer != nil:
		// Stop reports false if the timer has already ended the attempt.
		return s.timer.Stop()
	case lazy.Moment(s.limit.Load()).Over():
		return false
	}
	s.limit.Store(int64(lazy.Never))
	return true
}

// cancel ends the attempt and its runner.
func (s *sending) cancel(cause error) {
	s.Cancel(cause)
	if s.quit != nil {
		s.quit(cause)
	}
}

func (s *sending) Done() <-chan struct{} {
	// Only a goroutine that waits needs a timer. Attempts without one save it.
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

// ResendCount returns the number of earlier attempts of a request: 0 during the first attempt. The parameter ctx is the context of a request that
// [Transport].Base receives. In OpenTelemetry the result of ResendCount is the attribute http.request.resend_count.
func ResendCount(ctx context.Context) int {
	if s, ok := ctx.Value(keyOfSending{}).(*sending); ok {
		return s.resends
	}
	return 0
}
