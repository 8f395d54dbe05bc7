package outbox

import (
	"container/heap"
	"math"
	"slices"
	"time"

	"github.com/oncelib/once/internal/sql/hold"
)

// maxQueues bounds the length of a statement.
const maxQueues = 128

const (
	unparked = 8  // topics that are looked at when a call of Publish has ended
	revived  = 64 // topics that are tried when another topic is up again
)

// class separates topics in trouble from healthy ones: each class has a claimer and a finisher of its own.
type class uint8

const (
	classHealthy class = iota
	classTrouble
	classes
)

// unit is a piece of work for one topic, from its claim until it is finished. It holds its queues, and one call of Publish.
type unit struct {
	topic   *topic
	class   class
	work    work
	queues  []*queue
	ranges  []rangeOf // of the queues
	freed   []keyOf   // keys of workFreed
	blocked bool      // some of the messages may be blocked
	most    int       // messages that it may publish
	cost    int       // rows that its claim will probably read
	taken   int       // tokens
	items   []*item
	began   time.Time
	took    time.Duration // to read
	letGo   func()        // releases its parts
	before  bool          // the topic had answered before
	waits   int           // statements about it that ended with errLocked
	called  bool          // it still holds its call of Publish

	unanswered <-chan []error // not nil while Publish has not returned in its time
}

// list puts a topic into its list if it has work.
func (b *board) list(t *topic, now time.Time) {
	if t.place != placeNone {
		return
	}
	ready, at := t.ready(now)
	if ready {
		var found bool
		if _, found, at = t.work(now); found {
			b.append(t, now)
			return
		}
	}
	if !at.IsZero() && (t.timer.IsZero() || at.Before(t.timer)) {
		t.timer = at
		heap.Push(&b.timers, timer{at, t})
		if b.timers[0].topic == t {
			b.wakeAll()
		}
	}
}

func (b *board) append(t *topic, now time.Time) {
	c := classHealthy
	if t.inTrouble() {
		c = classTrouble
	}
	t.place = placeListed
	// A topic with little traffic must not wait behind topics with a backlog.
	if t.answered && now.Sub(t.used) > minPace {
		b.first[c].push(t)
	} else {
		b.others[c].push(t)
	}
	notify(b.woken[c])
}

func (b *board) wakeAll() {
	for _, c := range b.woken {
		notify(c)
	}
}

// pick returns work of a class. again is the time of the next look; zero means that it waits for a wake.
func (b *board) pick(c class) (units []*unit, again time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for len(b.timers) > 0 && !b.timers[0].at.After(now) {
		due := heap.Pop(&b.timers).(timer) //nolint:forcetypeassert // the heap has nothing else
		if due.topic.timer.Equal(due.at) {
			due.topic.timer = time.Time{}
			b.list(due.topic, now)
		}
	}
	rows, queues := b.batch, 0
	for rows > 0 && queues < maxQueues {
		// Three of four turns are for topics that were idle.
		from := &b.first[c]
		if from.len() == 0 || len(units)%4 == 3 && b.others[c].len() > 0 {
			from = &b.others[c]
		}
		if from.len() == 0 {
			break
		}
		t := from.pop()
		t.place = placeNone
		// It has changed its class since it was listed.
		if t.inTrouble() != (c == classTrouble) {
			b.list(t, now)
			continue
		}
		if u := b.unit(t, c, now); u != nil {
			units = append(units, u)
			rows -= u.cost
			queues += len(u.queues)
		}
	}
	if len(b.timers) > 0 {
		again = b.timers[0].at
	}
	return units, again
}

// unit takes work of a topic.
func (b *board) unit(t *topic, c class, now time.Time) *unit {
	ready, _ := t.ready(now)
	w, found, _ := t.work(now)
	if !ready || !found {
		b.list(t, now) // sets its timer
		return nil
	}
	if !b.mayCall(t, now) {
		t.place = placeParked
		b.parked.push(t)
		return nil
	}
	u := &unit{topic: t, class: c, work: w, began: now, before: t.answered, called: true, letGo: func() {}}
	n := t.allowed(b.batch)
	each := n
	if t.down > 0 { // a probe may take messages of all its queues
		each = max(1, n/len(t.queues))
	}
	for i := range t.queues {
		q := t.queues[(t.turn+i)%len(t.queues)]
		if has, _ := q.has(w, now); !has || n <= 0 {
			continue
		}
		q.claimed, q.seen, q.asked = true, q.tail, t.rowsOf(q, w, min(n, each), b.batch)
		u.queues = append(u.queues, q)
		of := rangeOf{queue: q, low: q.low(), high: math.MaxInt64, rows: q.asked}
		if w == workPage {
			of.low, of.high = q.page, q.mark
		}
		u.ranges = append(u.ranges, of)
		u.blocked = u.blocked || q.inTrouble()
		for key := range q.freed {
			if w == workFreed && len(u.freed) < q.asked {
				u.freed = append(u.freed, keyOf{q, key})
			}
		}
		taken := min(n, each, q.asked)
		u.most += taken
		if u.cost += taken; w == workClaim && q.asked <= leastRows {
			u.cost += min(taken, leastCost) - taken
		}
		n -= taken
	}
	t.turn, t.next, t.used = (t.turn+len(u.queues))%len(t.queues), (w+1)%works, now
	if t.Rate > 0 {
		u.taken = u.most
		t.tokens -= float64(u.taken)
	}
	if t.calls++; t.calls == 1 {
		// From now on the time without an answer counts.
		t.calledAt = now
	}
	if !u.before {
		b.unknown++
	}
	b.underWay[u] = now
	b.list(t, now) // for its other queues
	return u
}

// mayCall reports whether the process has a free call of Publish for a topic.
func (b *board) mayCall(t *topic, now time.Time) bool {
	switch {
	case len(b.underWay) >= maxCalls:
		return false
	// Topics that have never answered may all hang, and must not take all calls.
	case !t.answered && b.unknown >= maxUnknown:
		return false
	case len(b.underWay) < maxCalls/2:
		return true
	case !t.inTrouble() && !t.slow(now):
		return t.calls == 0 // topics that begin to hang at the same time would take all calls before they count as slow
	}
	bad := 0
	for u, began := range b.underWay {
		if u.class == classTrouble || now.Sub(began) > slowCall {
			bad++
		}
	}
	// The other half of the calls is reserved for healthy topics.
	return bad < maxCalls/2
}

// release releases the call of Publish of a unit.
func (b *board) release(u *unit) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !u.called {
		return
	}
	u.called = false
	delete(b.underWay, u)
	u.topic.calls--
	if !u.before {
		b.unknown--
	}
	now := time.Now()
	b.list(u.topic, now)
	for range min(b.parked.len(), unparked) { // a released topic may not need the call
		t := b.parked.pop()
		t.place = placeNone
		b.list(t, now)
	}
}

// finished releases the queues of a unit, whose items have their outcomes.
func (b *board) finished(u *unit) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	of := map[*queue][]*item{}
	published := 0
	for _, it := range u.items {
		of[it.queue] = append(of[it.queue], it)
		if it.sent {
			published++
		}
	}
	t := u.topic
	if t.Rate > 0 {
		// Messages that were not sent must not count towards the rate.
		t.tokens += float64(u.taken - published)
	}
	if u.work == workClaim {
		if t.blind++; published > 0 {
			t.blind = 0
		}
	}
	for _, q := range u.queues {
		q.finish(u.work, of[q], u.took, now)
	}
	b.list(t, now)
}

// leave removes queues from a unit whose parts are not held any more.
func (b *board) leave(u *unit, held []hold.Part) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, q := range u.queues {
		q.gone = q.gone || !slices.Contains(held, q.part)
	}
	gone := func(q *queue) bool { return q.gone }
	u.topic.queues = slices.DeleteFunc(u.topic.queues, gone)
	u.queues = slices.DeleteFunc(u.queues, gone)
	u.ranges = slices.DeleteFunc(u.ranges, func(r rangeOf) bool { return r.queue.gone })
	u.freed = slices.DeleteFunc(u.freed, func(k keyOf) bool { return k.queue.gone })
}

// giveBack releases a unit that has read nothing.
func (b *board) giveBack(u *unit) {
	b.release(u)
	b.mu.Lock()
	defer b.mu.Unlock()
	u.topic.tokens += float64(u.taken)
	for _, q := range u.queues {
		q.claimed = false
	}
	b.list(u.topic, time.Now())
}

// isRead notes that all messages of some keys were read.
func (b *board) isRead(keys []keyOf) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range keys {
		delete(k.queue.freed, k.key)
	}
}

// list is a first-in, first-out list of topics.
type list struct{ topics []*topic }

func (l *list) len() int      { return len(l.topics) }
func (l *list) push(t *topic) { l.topics = append(l.topics, t) }

func (l *list) pop() *topic {
	t := l.topics[0]
	l.topics[0] = nil
	l.topics = l.topics[1:]
	return t
}

// timer is when a topic is looked at again.
type timer struct {
	at    time.Time
	topic *topic
}

// timers is a heap, the earliest first.
type timers []timer

func (t *timers) Len() int           { return len(*t) }
func (t *timers) Less(i, j int) bool { return (*t)[i].at.Before((*t)[j].at) }
func (t *timers) Swap(i, j int)      { (*t)[i], (*t)[j] = (*t)[j], (*t)[i] }
func (t *timers) Push(x any)         { *t = append(*t, x.(timer)) } //nolint:forcetypeassert // of this package only

// Pop implements [heap.Interface].
func (t *timers) Pop() any {
	old := *t
	last := old[len(old)-1]
	*t = old[:len(old)-1]
	return last
}
