package once

import (
	"context"
	"sync"
	"time"

	"github.com/oncelib/once/store"
)

// flights coalesces the duplicates of one process. The first caller of an
// operation leads: it alone asks the store, waits for a holder elsewhere, and
// executes. The others wait for its verdict and hold no connection.
type flights struct {
	mu sync.Mutex
	m  map[store.ID]*flight
}

type flight struct {
	runs   chan struct{} // closed when the operation is known to run, here or elsewhere
	once   sync.Once     // closes runs
	maybe  bool          // before that: it runs if it is no replay, which its commit will tell
	ended  chan struct{} // closed when the leader has left
	record *store.Record // then: what it has learnt; nil if a follower must ask for itself
}

// join returns the flight of id and whether the caller leads it.
func (f *flights) join(id store.ID) (fl *flight, leads bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl = f.m[id]; fl == nil {
		fl, leads = &flight{runs: make(chan struct{}), ended: make(chan struct{})}, true
		f.m[id] = fl
	}
	return fl, leads
}

// leave ends a flight. It is deferred by the leader: a panic that left the
// flight behind would keep the operation in flight for ever.
func (f *flights) leave(id store.ID, fl *flight, record *store.Record) {
	f.mu.Lock()
	delete(f.m, id)
	f.mu.Unlock()
	fl.record = record
	close(fl.ended)
}

func (fl *flight) running() { fl.once.Do(func() { close(fl.runs) }) }

// maybeRunning is running for a batch.
func (fl *flight) maybeRunning() {
	fl.once.Do(func() {
		fl.maybe = true
		close(fl.runs)
	})
}

// grace is how long followers who do not want to wait do so for the verdict on a batch:
// a round trip, and not the locks that it may be waiting for.
const grace = 100 * time.Millisecond

// wait waits for the leader. It returns its record, or busy if the operation runs
// and the caller waits no longer. Neither: the leader gave up, join again.
func (fl *flight) wait(ctx context.Context, until time.Time) (record *store.Record, busy bool) {
	var runs <-chan struct{}
	var timeout <-chan time.Time
	if left := time.Until(until); left > 0 {
		t := time.NewTimer(left)
		defer t.Stop()
		timeout = t.C
	} else {
		runs = fl.runs // does not wait for the end, only for the verdict that it runs
	}
	select {
	case <-fl.ended:
	case <-runs:
		if fl.maybe {
			t := time.NewTimer(grace)
			defer t.Stop()
			select {
			case <-fl.ended:
			case <-t.C:
			case <-ctx.Done():
			}
		}
	case <-timeout:
		return nil, true
	case <-ctx.Done():
		return nil, true
	}
	select {
	case <-fl.ended: // it may have ended as well; its record is the better answer
		return fl.record, false
	default:
		return nil, true
	}
}
