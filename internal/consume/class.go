package consume

import "time"

// class says whether a message is in trouble. Each class has a separate lane, so that messages in trouble take no places from
// healthy messages.
type class uint8

const (
	healthy class = iota // the message has not failed
	failing              // the message has failed, or an earlier message of its batch or key has failed
	hung                 // the last handler of its key has not returned in time
	classes
)

// maxSuspects limits the memory of suspects.
const maxSuspects = 10000

// suspects contains the keys, and the messages without a key, whose last handler has not returned in time.
type suspects map[stream]struct{}

func (s suspects) has(d *Delivery) bool { _, is := s[suspectKey(d)]; return is }

func (s suspects) add(d *Delivery) {
	// The set is only a hint, so it may start again from empty.
	if len(s) >= maxSuspects {
		clear(s)
	}
	s[suspectKey(d)] = struct{}{}
}

func suspectKey(d *Delivery) stream {
	m := &d.Message
	if m.Key == "" {
		// The zero byte keeps the ID of a message apart from all keys.
		return stream{m.Source, m.Topic, "\x00" + m.ID}
	}
	return stream{m.Source, m.Topic, m.Key}
}

// troubleShare limits the time for messages in trouble while healthy messages wait or run. They get one part in troubleShare
// of the workers' time.
const troubleShare = 20

// choose returns the class of the next batch. It returns false if no batch can start now.
func (p *Pool) choose(now time.Time) (class, bool) {
	if len(p.working)+p.hangingPlaces() >= p.pressure.limit() {
		return 0, false
	}
	waits := len(p.backlog.lanes[healthy]) > 0
	beside := waits || p.busy[healthy] > 0
	// The classes in trouble take turns.
	for _, c := range [...]class{otherTrouble(p.lastTrouble), p.lastTrouble} {
		if len(p.backlog.lanes[c]) > 0 && p.mayTry(c) && (!beside || p.busy[c] == 0 && !now.Before(p.troubleAt[c])) {
			return c, true
		}
	}
	return healthy, waits
}

// rest makes a class in trouble pause after a batch, as long as healthy messages exist.
func (p *Pool) rest(c class, began, now time.Time) {
	p.troubleAt[c] = now.Add(now.Sub(began) * troubleShare / time.Duration(p.pressure.limit()))
}

// restEnds returns the end of the pause of a class in trouble with waiting messages, or the zero time.
func (p *Pool) restEnds(now time.Time) (at time.Time) {
	for _, c := range [...]class{failing, hung} {
		if len(p.backlog.lanes[c]) > 0 && p.busy[c] == 0 && now.Before(p.troubleAt[c]) {
			at = sooner(at, p.troubleAt[c])
		}
	}
	return at
}

// mayTry reports whether one more batch of messages in trouble has a place. All such batches together get half of the places.
// Each class gets at least one place, so that failing messages do not wait for hanging ones. But healthy messages keep the
// last place.
func (p *Pool) mayTry(c class) bool {
	limit := p.pressure.limit()
	taken := p.busy[failing] + p.busy[hung] + p.hangingPlaces()
	if p.busy[c] == 0 {
		return taken < max(1, limit-1)
	}
	return taken < limit/2
}

// hangingPlaces returns how many places hanging handlers take. It counts less than half of the places, so that a message that
// has hung once can be tried again.
func (p *Pool) hangingPlaces() int {
	return min(p.sink.Hanging(), max(1, p.pressure.limit()/2)-1)
}

// otherTrouble returns the other class in trouble.
func otherTrouble(c class) class { return failing + hung - c }
