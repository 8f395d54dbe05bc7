package consume

import (
	"context"
	"slices"
	"time"
)

const (
	// healthyDeliveries is how often a broker may have delivered a message that counts as one that has not failed: a process may have
	// ended with it once.
	healthyDeliveries = 2

	// slowAfter is how long a worker may have messages until others of their keys do not count against Prefetch any more.
	slowAfter = time.Second

	// givenBack is the pause of a message that there is no room for, because its key waits.
	givenBack = 5 * time.Second
)

// aside counts the messages that do not count against Prefetch: messages that have failed, and messages that wait for another one of their key. So they keep
// no other message from being fetched.
type aside struct {
	count int
	bytes int
}

func (p *Pool) setApart(d *Delivery) {
	if d.apart {
		return
	}
	d.apart = true
	p.aside.count++
	p.aside.bytes += d.size()
	d.Receipt.Apart(d.size())
	p.room.Broadcast()
}

// givesBack gives a message that waits for its key back to the broker if there are as many of these as of others. It returns false if
// there is room, or if the broker does not take it.
func (p *Pool) givesBack(d *Delivery) bool {
	full := p.aside.count >= p.cfg.Prefetch || p.aside.bytes >= p.cfg.PrefetchBytes
	return full && d.Receipt.Again(givenBack)
}

// setQueueApart sets the waiting messages of a line apart.
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

// watch sets messages apart that a worker has had for long, until ctx ends.
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

// setSlowApart sets messages apart that a worker has had for long, and the messages that wait for these.
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
