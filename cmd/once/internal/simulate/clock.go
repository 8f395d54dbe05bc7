package simulate

import "time"

// clock is simulated time. Its events happen one after the other. Events of the same time happen in the order in which they were planned.
type clock struct {
	now    time.Duration
	events []event // a heap: an event is not before the one at (its index - 1) / 2
	count  int
}

type event struct {
	at time.Duration
	no int
	f  func()
}

func (e event) before(other event) bool {
	return e.at < other.at || e.at == other.at && e.no < other.no
}

// after plans f for the time d from now.
func (c *clock) after(d time.Duration, f func()) {
	c.count++
	e := event{c.now + max(0, d), c.count, f}
	i := len(c.events)
	c.events = append(c.events, e)
	for i > 0 && e.before(c.events[(i-1)/2]) {
		c.events[i] = c.events[(i-1)/2]
		i = (i - 1) / 2
	}
	c.events[i] = e
}

// run runs all events that are due before end.
func (c *clock) run(end time.Duration) {
	for len(c.events) > 0 && c.events[0].at < end {
		e := c.events[0]
		c.pop()
		c.now = e.at
		e.f()
	}
	c.now = end
}

// pop takes the first event from the heap.
func (c *clock) pop() {
	last := len(c.events) - 1
	e := c.events[last]
	c.events[last] = event{}
	c.events = c.events[:last]
	if last == 0 {
		return
	}
	i := 0
	for {
		child := 2*i + 1
		if child+1 < last && c.events[child+1].before(c.events[child]) {
			child++
		}
		if child >= last || !c.events[child].before(e) {
			break
		}
		c.events[i] = c.events[child]
		i = child
	}
	c.events[i] = e
}
