package consume

import (
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

	maxSuspects = 10000
)

// aside is what does not count against Prefetch: messages that have failed, and those that wait for another one of their key. So they keep
// no other message from being fetched.
type aside struct {
	count    int
	bytes    int
	suspects suspects
}

// suspects are keys, or messages without a key, whose last handler has not returned in time.
type suspects map[streamKey]struct{}

func (s suspects) has(d *Delivery) bool { _, is := s[suspectKey(d)]; return is }

func (s suspects) add(d *Delivery) {
	if len(s) >= maxSuspects {
		clear(s)
	}
	s[suspectKey(d)] = struct{}{}
}

func suspectKey(d *Delivery) streamKey {
	m := &d.Message
	if m.Key == "" {
		return streamKey{m.Source, m.Topic, "\x00" + m.ID}
	}
	return streamKey{m.Source, m.Topic, m.Key}
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

// setQueueApart sets what waits in a stream apart.
func (p *Pool) setQueueApart(s *stream) {
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

// setSlowApart sets messages apart that a worker has had for long, and those that wait for these. It reports whether there are any,
// and when there may be more of them.
func (p *Pool) setSlowApart(now time.Time) (more bool, next time.Time) {
	for w := range p.working {
		if w.slow {
			continue
		}
		if at := w.began.Add(slowAfter); at.After(now) {
			next = sooner(next, at)
			continue
		}
		w.slow, more = true, true
		for _, d := range w.batch {
			if !d.dropped {
				p.setApart(d)
			}
		}
		for _, s := range w.streams {
			s.slow = true
			p.setQueueApart(s)
		}
	}
	return more, next
}

// choose returns the lane from which the next batch is taken; nil if there is no place for one. Messages that have failed, and handlers that
// do not return, take at most half of the places, and of two batches that could begin, one has not failed.
func (p *Pool) choose() *lane {
	limit, hanging := p.pressure.limit(), p.sink.Hanging()
	if len(p.working)+min(hanging, limit/2) >= limit {
		return nil
	}
	sick, ready := &p.backlog.sick, &p.backlog.ready
	switch {
	case len(*sick) > 0 && p.busySick+hanging < max(1, limit/2) && (len(*ready) == 0 || p.busySick == 0 && !p.sickLast):
		return sick
	case len(*ready) > 0:
		return ready
	}
	return nil
}
