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
	slowCall   = time.Second            // a call that takes longer counts as one of a topic in trouble
	probeEach  = 50 * time.Millisecond  // topics that are down are tried one after the other, so often
	probeMost  = 750 * time.Millisecond // but one that is alone is tried again after so long
	probeRows  = 16                     // first attempts that all fail are an outage, also if no error says so
	partPause  = 100 * time.Millisecond // after a destination was available for a part of a batch
	forgetIdle = time.Minute
)

// topic is what this process knows of the destination of a topic, and the bounds of it. Its queues share them.
type topic struct {
	TopicConfig

	name   string
	queues []*queue
	turn   int // the queue that is first in the next claim
	next   work
	paused bool
	used   time.Time
	told   bool         // that it has too many failing messages
	locked atomic.Int32 // units of which rows are locked by other transactions

	place    place
	timer    time.Time // when it is looked at again; zero: none is set
	answered bool      // its destination has confirmed a message
	tokens   float64   // messages that can be published now: at most those of a second, and one
	counted  time.Time
	calls    int       // of Publish, under way
	calledAt time.Time // the oldest of them that has begun when there was none
	wait     topicWait // what people were told last

	down  int       // how often in a row its destination was not available
	until time.Time // put aside for so long
	asked bool      // by the destination
	probe int       // messages with which it is tried while it is down
	since time.Time // the first time
	cause error     // the last time
	blind int       // claims in a row, while it is down, that have found nothing that can be delivered
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

// ready reports whether messages of the topic can be published now, and if not when, if that is known.
func (t *topic) ready(now time.Time) (bool, time.Time) {
	switch {
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
	least := max(1, min(t.Rate/share, leastRows))
	if t.tokens >= least {
		return true, time.Time{}
	}
	return false, now.Add(time.Duration((least - t.tokens) / t.Rate * float64(time.Second)))
}

// work returns the first work of which there is some now, beginning with that after the last one, and if there is none when there will be.
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

// allowed is how many messages can be published now, at most n.
func (t *topic) allowed(n int) int {
	if t.down > 0 {
		n = min(n, t.probe)
	}
	if t.Rate > 0 {
		n = min(n, int(t.tokens))
	}
	return n
}

// rowsOf is how many rows are read of a queue in order to find n messages.
func (t *topic) rowsOf(q *queue, w work, n, batch int) int {
	switch {
	case w == workPage:
		return min(pageRows, batch)
	case w == workRetry:
		return min(n, retryRows)
	case w == workFreed:
		return n
	case t.down > 0 && w == workClaim:
		return min(batch, n<<min(2*t.blind, 10))
	}
	return min(n, q.rows)
}

// isDown puts a topic aside whose destination was not available, for wait. probe is the number of messages with which it is tried then.
func (t *topic) isDown(wait time.Duration, asked bool, probe int, now time.Time) {
	t.down++
	t.until, t.asked, t.probe = now.Add(wait), asked, probe
}

// isUp notes that the destination is there.
func (t *topic) isUp() {
	t.down, t.until, t.since, t.asked, t.blind = 0, time.Time{}, time.Time{}, false, 0
}

// slow reports whether a call has been under way for long.
func (t *topic) slow(now time.Time) bool { return t.calls > 0 && now.Sub(t.calledAt) > slowCall }

// idle reports whether the topic can be forgotten: the scan finds it again.
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

// isDown puts a topic aside whose destination was not available. wait says for how long, when that has happened several times in a row.
func (b *board) isDown(t *topic, asked bool, probe int, wait func(times int) time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if now.Before(t.until) { // another call has said so: it is the same time
		return
	}
	if t.down == 0 {
		b.downs++
	}
	d := wait(t.down + 1)
	if !asked {
		d = min(d, max(probeMost, time.Duration(b.downs)*probeEach))
	}
	t.isDown(d, asked, probe, now)
}

// isUp notes that the destination of a topic is there. Others are likely to be there as well.
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
		if other.down > 0 && !other.asked && now.Before(other.until) {
			tried++
			other.until = now
			b.list(other, now)
		}
	}
}

// nextProbe is with how many messages a topic is tried that is down although no error says so: more each time, because all of those that were
// tried may be bad.
func (b *board) nextProbe(t *topic) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t.down == 0 {
		return probeRows
	}
	return min(2*max(t.probe, probeRows), max(b.batch, probeRows))
}

// wait puts a topic aside for a moment, whose destination was available for a part of a batch.
func (b *board) wait(t *topic, d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t.until = time.Now().Add(d)
}
