package limit

import (
	"time"

	"github.com/oncelib/once/internal/base/fairqueue"
)

// State is a snapshot of a limiter and its counters.
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
