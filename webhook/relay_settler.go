package webhook

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/oncelib/once/internal/base/sleep"
)

// Lanes of settlers: failures and successes are never written by the same statement, so that neither waits for the other.
const (
	laneDelivered = iota
	laneFailed
	lanes
)

const (
	settlersOfLane = 2   // concurrent statements of a lane: one is written while another waits for its commit
	settleMost     = 256 // deliveries in a statement
)

const (
	patience    = 2 * time.Second // bounds a statement about several endpoints: another transaction may have locked rows of one of them
	lockedPause = 200 * time.Millisecond
	lockedTold  = int(patience / lockedPause) // waits of a delivery after which the observer hears of it
)

// errRowsLocked says that outcomes cannot be written.
var errRowsLocked = errors.New("the relay cannot write the outcomes of deliveries: another transaction has locked rows of once_webhook_delivery, or the database is slow. " +
	"Try: find the open transaction that has changed once_webhook_delivery, and end it")

func (d *delivery) lane() int {
	if d.answer.delivered() && d.state == nil {
		return laneDelivered
	}
	return laneFailed
}

// settler writes the outcomes of deliveries, many in one statement, behind the fence of their parts. Deliveries whose rows another transaction has
// locked go to a separate settler, and so do later outcomes of their endpoints. So an open transaction delays the outcomes of no other endpoint.
type settler struct {
	relay *Relay
	mu    sync.Mutex
	list  []*delivery
	ended bool // no other delivery comes
	woken chan struct{}
}

func newSettler(r *Relay) *settler { return &settler{relay: r, woken: make(chan struct{}, 1)} }

func (s *settler) add(list ...*delivery) {
	s.mu.Lock()
	s.list = append(s.list, list...)
	s.mu.Unlock()
	notify(s.woken)
}

// end lets run return when all outcomes are written.
func (s *settler) end() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	notify(s.woken)
}

// take returns the deliveries for one statement. ok reports that more may follow.
func (s *settler) take() (list []*delivery, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(s.list), settleMost)
	list, s.list = s.list[:n:n], s.list[n:]
	if len(s.list) > 0 || s.ended {
		notify(s.woken) // the next one of run
	}
	return list, n > 0 || !s.ended
}

// run works until end is called. It may be called several times at once.
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
		list = slices.DeleteFunc(list, func(d *delivery) bool { return d.target.locked.Load() > 0 && r.wait(ctx, d) })
		s.finish(list, r.settle(ctx, list))
	}
}

// finish notes that the outcomes of list are written, except those in locked.
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

// runLocked works until end is called, on deliveries whose rows were locked. After the end of Run it has the TTL to write them.
func (s *settler) runLocked(ctx context.Context) {
	var until time.Time // once Run ends
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
				locked = nil
			}
		}
		s.finish(list, locked)
		if len(locked) > 0 {
			sleep.For(context.WithoutCancel(ctx), lockedPause)
		}
	}
}

// wait queues a delivery until its row is not locked any more. It returns true.
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
