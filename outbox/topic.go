package outbox

import (
	"slices"
	"sync/atomic"
	"time"
)

// Bounds of topics.
const (
	maxCalls   = 1024                   // calls of Publish at once from this process: half of them for topics in trouble
	maxUnknown = maxCalls / 4           // of topics that have never answered
	slowCall   = time.Second            // a call that takes longer counts as a call of a topic in trouble
	probeEach  = 50 * time.Millisecond  // pause between two probes of topics that are down
	probeMost  = 750 * time.Millisecond // pause between two probes of the same topic, if no other is down
	probeRows  = 16                     // if this many first attempts all fail, it counts as an outage, also without an error that says so
	partPause  = 100 * time.Millisecond // after a destination was available for a part of a batch only
	forgetIdle = time.Minute
)

// topic is the state of a topic's destination as this process has seen it, and the topic's bounds. All its
// queues share it.
type topic struct {
	TopicConfig

	name   string
	queues []*queue
	turn   int // the queue that is first in the next claim
	next   work
	paused bool
	used   time.Time
	told   bool         // the observer has received the event that it has too many failing messages
	locked atomic.Int32 // units whose rows other transactions have locked

	place    place
	timer    time.Time // when it is looked at again; zero if no timer is set
	answered bool      // its destination has confirmed a message
	tokens   float64   // messages that may be published now: at most the tokens of one second, and one more
	counted  time.Time
	calls    int       // running calls of Publish
	calledAt time.Time // when a call began while no other one was running
	wait     topicWait // the last wait that was stored for people

	down  int       // how often in a row its destination was not available
	until time.Time // no attempt before it
	asked bool      // the destination has asked for a pause until that time
	probe int       // messages in the next probe while it is down
	since time.Time // of the first failure
	cause error     // of the last failure
	blind int       // claims in a row, while it is down, that have found no deliverable message
}

// place is the list of the board in which a topic is.
type place uint8

const (
	placeNone   place = iota
	placeListed       // it can be picked
	placeParked       // it waits for a call of Publish
)

// inTrouble reports whether the topic is down, or messages of it have failed or wait.
func (t *topic) inTrouble() bool {
	if t.down > 0 {
		return true
	}
	for _, q := range t.queues {
		if q.inTrouble() {
			return true
		}
	}
	return false
}

// ready reports whether messages of the topic can be published now. If not, it returns the time from which they can, if that is known.
func (t *topic) ready(now time.Time) (bool, time.Time) {
	switch {
	// The end of the pause or of a call lists the topic again, so no time is returned.
	case t.paused, t.calls >= t.Concurrency:
		return false, time.Time{}
	case now.Before(t.until):
		return false, t.until
	}
	if t.Rate <= 0 {
		return true, time.Time{}
	}
	most := max(1, t.Rate)
	if !t.counted.IsZero() {
		t.tokens = min(most, t.tokens+t.Rate*now.Sub(t.counted).Seconds())
	}
	t.counted = now
	// At a high rate it waits for several tokens, so that a claim does not read one message at a time.
	least := max(1, min(t.Rate/share, leastRows))
	if t.tokens >= least {
		return true, time.Time{}
	}
	return false, now.Add(time.Duration((least - t.tokens) / t.Rate * float64(time.Second)))
}

// work returns the next kind of work that the topic has now, in turn after the last one. If it has none, at is the time from which it will have some.
func (t *topic) work(now time.Time) (w work, found bool, at time.Time) {
	for i := range works {
		w := (t.next + i) % works
		for _, q := range t.queues {
			has, when := q.has(w, now)
			if has {
				return w, true, time.Time{}
			}
			if !when.IsZero() && (at.IsZero() || when.Before(at)) {
				at = when
			}
		}
	}
	return 0, false, at
}

// allowed is how many messages may be published now, at most n.
func (t *topic) allowed(n int) int {
	if t.down > 0 {
		n = min(n, t.probe)
	}
	if t.Rate > 0 {
		n = min(n, int(t.tokens))
	}
	return n
}

// rowsOf is how many rows of a queue are read to find n messages.
func (t *topic) rowsOf(q *queue, w work, n, batch int) int {
	switch {
	case w == workPage:
		return min(pageRows, batch)
	case w == workRetry:
		return min(n, retryRows)
	case w == workFreed:
		return n
	// A probe needs a message that can be delivered. Blocked ones may come first, so each claim that finds none makes
	// the next one read four times as many rows.
	case t.down > 0 && w == workClaim:
		return min(batch, n<<min(2*t.blind, 10))
	}
	return min(n, q.rows)
}

// isDown pauses a topic for the time wait, because its destination was not available. The next probe has probe
// messages.
func (t *topic) isDown(wait time.Duration, asked bool, probe int, now time.Time) {
	t.down++
	t.until, t.asked, t.probe = now.Add(wait), asked, probe
}

// isUp records that the destination is available.
func (t *topic) isUp() {
	t.down, t.until, t.since, t.asked, t.blind = 0, time.Time{}, time.Time{}, false, 0
}

// slow reports whether a call has been running for long.
func (t *topic) slow(now time.Time) bool { return t.calls > 0 && now.Sub(t.calledAt) > slowCall }

// idle reports whether the topic can be dropped from memory: the scan finds it again.
func (t *topic) idle(now time.Time) bool {
	if t.place != placeNone || t.calls > 0 || now.Sub(t.used) < forgetIdle || len(t.queues) > 0 && t.inTrouble() {
		return false
	}
	for _, q := range t.queues {
		if q.claimed || q.tail > q.mark {
			return false
		}
	}
	return true
}

// newlyFull reports, once, that a queue of a topic has too many failing messages.
func (b *board) newlyFull(t *topic) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	told := t.told
	t.told = slices.ContainsFunc(t.queues, (*queue).full)
	return t.told && !told
}

// isDown pauses a topic whose destination was not available. wait is the pause after a number of failures in a row.
func (b *board) isDown(t *topic, asked bool, probe int, wait func(times int) time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if now.Before(t.until) { // another call has already counted this outage
		return
	}
	if t.down == 0 {
		b.downs++
	}
	d := wait(t.down + 1)
	// Many topics that are down share the probes, and a single one is probed more often, so that it is up again
	// soon.
	if !asked {
		d = min(d, max(probeMost, time.Duration(b.downs)*probeEach))
	}
	t.isDown(d, asked, probe, now)
}

// isUp records that the destination of a topic is available. Then other destinations are probably available as
// well.
func (b *board) isUp(t *topic, answered bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t.answered = t.answered || answered
	if t.down == 0 {
		return
	}
	t.isUp()
	b.downs--
	now, tried := time.Now(), 0
	for _, other := range b.topics {
		if b.downs == 0 || tried == revived {
			break
		}
		// A destination that has asked for a pause is not probed before its end.
		if other.down > 0 && !other.asked && now.Before(other.until) {
			tried++
			other.until = now
			b.list(other, now)
		}
	}
}

// nextProbe returns the number of messages of the next probe, for a topic that is down although no error says
// so. The number doubles each time, because all messages of the last probe may be bad ones.
func (b *board) nextProbe(t *topic) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t.down == 0 {
		return probeRows
	}
	return min(2*max(t.probe, probeRows), max(b.batch, probeRows))
}

// wait pauses a topic for a moment, because its destination was available for a part of a batch only.
func (b *board) wait(t *topic, d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t.until = time.Now().Add(d)
}
