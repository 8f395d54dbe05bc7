package limit

import (
	"time"

	"github.com/oncelib/once/internal/base/fairqueue"
)

// State is the state of a [Limiter] at one moment. The counters in State begin with 0 at the start of the
// process.
type State struct {
	Running  int           // requests that are being served
	Waiting  int           // requests that wait for a slot
	Capacity int           // requests that may be served at the same time
	Took     time.Duration // how long requests have lately been served, on average

	Admitted uint64 // requests that were admitted
	Replays  uint64 // requests that were answered from their records while all slots were taken
	Exceeded uint64 // requests that were refused with 429
	Full     uint64 // requests that were refused with 503 because the queue was full
	Late     uint64 // requests that were refused with 503 because they would have waited too long, or have waited too long
}

// State returns a snapshot of l.
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
