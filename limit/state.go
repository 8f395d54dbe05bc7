package limit

import (
	"net/http"
	"time"

	"github.com/oncelib/once/internal/fairqueue"
	"github.com/oncelib/once/oncehttp"
)

// Codes of the problems with which requests are refused.
const (
	CodeExceeded   = "RATE_LIMIT.exceeded"  // 429: this tenant has more waiting than its share
	CodeOverloaded = "TRANSIENT.overloaded" // 503: there is no room, or not in time
)

// State is what a limiter looks like at some moment, and what it has done so far.
type State struct {
	Running  int           // requests that are served
	Waiting  int           // requests that wait for their turn
	Capacity int           // requests that may be served at the same time
	Took     time.Duration // how long requests have lately been served, on average

	Admitted uint64 // requests that were served, or are
	Replays  uint64 // answered from the record where all places were taken
	Exceeded uint64 // refused with 429
	Full     uint64 // refused with 503: the queue was full
	Late     uint64 // refused with 503: it would have taken too long, or has
}

// State returns the state of l.
func (l *Limiter) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.state
	s.Running, s.Waiting, s.Capacity, s.Took = l.queue.Running(), l.queue.Waiting(), l.queue.Places(), l.queue.Mean()
	return s
}

func (l *Limiter) count(why fairqueue.Why) {
	switch why {
	case fairqueue.Admitted:
		l.state.Admitted++
	case fairqueue.Share:
		l.state.Exceeded++
	case fairqueue.Full:
		l.state.Full++
	case fairqueue.Late:
		l.state.Late++
	}
}

// problem is what a client is told. That nothing was done for this request says nothing
// of an earlier one with the same key: another key is not safe.
func problem(r fairqueue.Refusal) *oncehttp.Problem {
	p := &oncehttp.Problem{
		Type: "https://oncelib.dev/problems/transient/overloaded", Status: http.StatusServiceUnavailable,
		Title: "Overloaded", Detail: "The server has too much to do, and has not begun with this request. Send it again after Retry-After.",
		Code: CodeOverloaded, Retryable: true, RetryAfter: max(r.After, time.Second),
	}
	if r.Why == fairqueue.Share {
		p.Type, p.Status, p.Code = "https://oncelib.dev/problems/rate-limit/exceeded", http.StatusTooManyRequests, CodeExceeded
		p.Title, p.Detail = "Too many requests", "You have more requests waiting than your share. This one was not begun. Send it again after Retry-After."
	}
	return p
}
