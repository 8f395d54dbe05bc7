package webhook

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/oncelib/once/internal/base/sleep"
)

// Lanes of settlers: one statement never writes both failures and successes, so that a lock on one kind does
// not delay the other kind.
const (
	laneDelivered = iota
	laneFailed
	lanes
)

const (
	settlersOfLane = 2   // concurrent statements of a lane: one writes while another one waits for its commit
	settleMost     = 256 // the maximum number of deliveries in a statement
)

const (
	patience    = 2 * time.Second // limits the time of a statement about several endpoints: another transaction may have locked rows of one endpoint
	lockedPause = 200 * time.Millisecond
	lockedTold  = int(patience / lockedPause) // after this many waits of a delivery, the relay tells the observer
)

// errRowsLocked says that outcomes of deliveries cannot be written.
var errRowsLocked = errors.New("the relay cannot write the outcomes of deliveries: another transaction has locked rows of once_webhook_delivery, or the database is slow. " +
	"Try: find the open transaction that has changed once_webhook_delivery, and end it")

func (d *delivery) lane() int {
	if d.answer.delivered() && d.state == nil {
		return laneDelivered
	}
	return laneFailed
}

// settler writes the outcomes of deliveries, many in one statement. Each statement checks that this process
// still holds the parts. If another transaction has locked the row of a delivery, this delivery and later ones
// of the same endpoint go to a separate settler. So an open transaction does not delay the outcomes of other
// endpoints.
type settler struct {
	relay *Relay
	mu    sync.Mutex
	list  []*delivery
	ended bool // the relay adds no more deliveries
	woken chan struct{}
}

func newSettler(r *Relay) *settler { return &settler{relay: r, woken: make(chan struct{}, 1)} }

func (s *settler) add(list ...*delivery) {
	s.mu.Lock()
	s.list = append(s.list, list...)
	s.mu.Unlock()
	notify(s.woken)
}

// end makes run return when all outcomes are written.
func (s *settler) end() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	notify(s.woken)
}

// take returns the deliveries for the next statement. The result ok reports that more may follow.
func (s *settler) take() (list []*delivery, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(s.list), settleMost)
	list, s.list = s.list[:n:n], s.list[n:]
	if len(s.list) > 0 || s.ended {
		notify(s.woken) // wakes another goroutine in run
	}
	return list, n > 0 || !s.ended
}

// run writes outcomes until end is called. Several goroutines can call run.
func (s *settler) run(ctx context.Context) {
	r := s.relay
	for {
		list, ok := s.take()
		switch {
		case !ok:
			return
		case len(list) == 0:
			<-s.woken
			continue
		}
		// Rows of these endpoints are probably still locked, so their outcomes wait in the other settler.
		list = slices.DeleteFunc(list, func(d *delivery) bool { return d.target.locked.Load() > 0 && r.wait(ctx, d) })
		s.finish(list, r.settle(ctx, list))
	}
}

// finish records that the outcomes of list are written, except the outcomes of locked.
func (s *settler) finish(list, locked []*delivery) {
	for _, d := range list {
		switch {
		case slices.Contains(locked, d):
			s.relay.wait(context.Background(), d)
			continue
		case d.waits > 0:
			d.target.locked.Add(-1)
		}
		s.relay.board.settled(d)
		d.done()
	}
}

// runLocked writes the outcomes of deliveries whose rows were locked, until end is called. After the end of
// Run, it may try for one TTL.
func (s *settler) runLocked(ctx context.Context) {
	var until time.Time // set when Run ends
	for {
		list, ok := s.take()
		switch {
		case !ok:
			return
		case len(list) == 0:
			<-s.woken
			continue
		}
		locked := s.relay.settle(ctx, list)
		if len(locked) > 0 && ctx.Err() != nil {
			if until.IsZero() {
				until = time.Now().Add(s.relay.cfg.TTL)
			}
			if time.Now().After(until) {
				s.relay.tell(ctx, RelayEvent{Type: EventDatabase, Err: errRowsLocked})
				// The rows stay as they are, so another process delivers these events again.
				locked = nil
			}
		}
		s.finish(list, locked)
		if len(locked) > 0 {
			// The rows stay locked for a while. An immediate try would only load the database.
			sleep.For(context.WithoutCancel(ctx), lockedPause)
		}
	}
}

// wait queues a delivery until its row is no longer locked. It returns true, for use in a condition.
func (r *Relay) wait(ctx context.Context, d *delivery) bool {
	if d.waits == 0 {
		d.target.locked.Add(1)
	}
	if d.waits++; d.waits == lockedTold {
		r.tell(ctx, RelayEvent{Type: EventDatabase, Tenant: d.tenant, Endpoint: d.target.uid, EventID: d.uid, Err: errRowsLocked})
	}
	r.locked.add(d)
	return true
}
