package consume

import "time"

// class says whether a message is in trouble. Each class has a lane of its own, so that messages in trouble take no places from healthy ones.
type class uint8

const (
	healthy class = iota // it has not failed
	failing              // it has failed, or was in a batch or a key behind one that has
	hung                 // the last handler of its key has not returned in time
	classes
)

const maxSuspects = 10000

// suspects has the keys, and the messages without a key, whose last handler has not returned in time.
type suspects map[stream]struct{}

func (s suspects) has(d *Delivery) bool { _, is := s[suspectKey(d)]; return is }

func (s suspects) add(d *Delivery) {
	if len(s) >= maxSuspects {
		clear(s)
	}
	s[suspectKey(d)] = struct{}{}
}

func suspectKey(d *Delivery) stream {
	m := &d.Message
	if m.Key == "" {
		return stream{m.Source, m.Topic, "\x00" + m.ID}
	}
	return stream{m.Source, m.Topic, m.Key}
}

// troubleShare is the share of the workers' time, one in so many, that messages in trouble get while healthy ones wait or run.
const troubleShare = 20

// choose returns the class from which the next batch is taken; false if no batch can start now.
func (p *Pool) choose(now time.Time) (class, bool) {
	if len(p.working)+p.hangingPlaces() >= p.pressure.limit() {
		return 0, false
	}
	waits := len(p.backlog.lanes[healthy]) > 0
	beside := waits || p.busy[healthy] > 0
	for _, c := range [...]class{otherTrouble(p.lastTrouble), p.lastTrouble} {
		if len(p.backlog.lanes[c]) > 0 && p.mayTry(c) && (!beside || p.busy[c] == 0 && !now.Before(p.troubleAt[c])) {
			return c, true
		}
	}
	return healthy, waits
}

// rest has a class in trouble wait for a time after a batch, while there are healthy messages.
func (p *Pool) rest(c class, began, now time.Time) {
	p.troubleAt[c] = now.Add(now.Sub(began) * troubleShare / time.Duration(p.pressure.limit()))
}

// restEnds returns when the pause ends of a class in trouble that has waiting messages; zero without such a class.
func (p *Pool) restEnds(now time.Time) (at time.Time) {
	for _, c := range [...]class{failing, hung} {
		if len(p.backlog.lanes[c]) > 0 && p.busy[c] == 0 && now.Before(p.troubleAt[c]) {
			at = sooner(at, p.troubleAt[c])
		}
	}
	return at
}

// mayTry reports whether there is a place for one more batch of messages in trouble. They have half of the places together. Each class has
// one in any case, so that failing messages do not wait for hanging ones, unless it is the last one that healthy messages have.
func (p *Pool) mayTry(c class) bool {
	limit := p.pressure.limit()
	taken := p.busy[failing] + p.busy[hung] + p.hangingPlaces()
	if p.busy[c] == 0 {
		return taken < max(1, limit-1)
	}
	return taken < limit/2
}

// hangingPlaces is how many places handlers take that hang: less than half of them, so that a message which has hung once can be tried again.
func (p *Pool) hangingPlaces() int {
	return min(p.sink.Hanging(), max(1, p.pressure.limit()/2)-1)
}

// otherTrouble is the other class in trouble.
func otherTrouble(c class) class { return failing + hung - c }
