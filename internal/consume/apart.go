package consume

import (
	"context"
	"slices"
	"time"
)

const (
	// healthyDeliveries is how often a broker may have delivered a message that still counts as healthy. A process may have ended
	// once while it had the message.
	healthyDeliveries = 2

	// slowAfter is how long a worker may have messages. After that, other messages of their keys do not count against Prefetch.
	slowAfter = time.Second

	// givenBack is the pause of a message that goes back to the broker, because its key waits and the pool has no room.
	givenBack = 5 * time.Second
)

// aside counts the messages that do not count against Prefetch: messages that have failed, and messages that wait for an
// earlier message of their key. So these messages do not prevent the fetch of other messages.
type aside struct {
	count int
	bytes int
}

// setApart makes a message not count against Prefetch.
func (p *Pool) setApart(d *Delivery) {
	if d.apart {
		return
	}
	d.apart = true
	p.aside.count++
	p.aside.bytes += d.size()
	d.Receipt.Apart(d.size())
	// The message no longer counts, so there may be room for another one.
	p.room.Broadcast()
}

// givesBack returns a message that waits for its key to the broker, if the pool has as many such messages as other messages.
// It returns false if the pool has room, or if the broker does not accept the message.
// A message that only waits can wait at the broker as well.
func (p *Pool) givesBack(d *Delivery) bool {
	full := p.aside.count >= p.cfg.Prefetch || p.aside.bytes >= p.cfg.PrefetchBytes
	return full && d.Receipt.Again(givenBack)
}

// setQueueApart sets the waiting messages of a line apart, or gives them back to the broker.
func (p *Pool) setQueueApart(s *line) {
	s.queue = slices.DeleteFunc(s.queue, func(d *Delivery) bool {
		gone := !d.apart && !d.dropped && p.givesBack(d)
		if gone {
			p.backlog.waiting--
			p.forget(d)
		} else if !d.dropped {
			p.setApart(d)
		}
		return gone
	})
}

// watch sets apart the messages that a worker has had for a long time, until ctx ends.
func (p *Pool) watch(ctx context.Context) {
	ticker := time.NewTicker(slowAfter / 2)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			p.setSlowApart(now)
		}
	}
}

// setSlowApart sets apart the messages that a worker has had for a long time, and the messages that wait for them.
func (p *Pool) setSlowApart(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for w := range p.working {
		if w.slow || now.Sub(w.began) < slowAfter {
			continue
		}
		w.slow = true
		for _, d := range w.batch {
			if !d.dropped {
				p.setApart(d)
			}
		}
		for _, s := range w.lines {
			s.slow = true
			p.setQueueApart(s)
		}
	}
}
