package outbox

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/oncelib/once/internal/hold"
)

// maxQueues bounds the length of a statement.
const maxQueues = 128

const (
	unparked = 8  // topics that are looked at when a call of Publish has ended
	revived  = 64 // topics that are tried when another one is there again
)

// class separates topics in trouble from healthy ones: each class has a claimer and a settler of its own.
type class uint8

const (
	classHealthy class = iota
	classTrouble
	classes
)

// board knows which topics have something to do, and whose turn it is. Nothing in it reads the database.
//
// A topic that is down, paused, out of tokens or at its Concurrency is in no list: it costs nothing, and its marks do not
// move.
type board struct {
	mu      sync.Mutex
	configs map[string]TopicConfig
	batch   int
	calls   int // of one topic at once, where TopicConfig says nothing

	topics map[string]*topic
	parts  map[int]*heldPart
	paused map[stream]struct{} // by a person; key "": the whole topic
	first  [classes]list       // topics that were idle: they do not wait for those with a backlog
	others [classes]list
	parked list
	timers timers
	woken  [classes]chan struct{}

	underWay map[*unit]time.Time // calls of Publish
	unknown  int                 // of topics that have never answered
	downs    int                 // topics that are down
}

// heldPart is a part that this process holds.
type heldPart struct {
	hold.Part

	known   bool      // which of its queues have failures
	doubted time.Time // until then another process seems to hold it
}

// stream is a topic and a key that orders messages.
type stream struct{ topic, key string }

func streamOf(m *Message) stream { return stream{m.Topic, m.Key} }

// unit is a piece of work for one topic, from its claim until it is settled. It holds its queues, and one call of Publish.
type unit struct {
	topic   *topic
	class   class
	work    work
	queues  []*queue
	ranges  []rangeOf // of the queues
	freed   []keyOf   // of workFreed
	blocked bool      // some of the messages may be
	most    int       // messages that it can publish
	taken   int       // tokens
	items   []*item
	began   time.Time
	took    time.Duration // to read
	letGo   func()        // of its parts
	before  bool          // the topic had answered before
	called  bool          // its call of Publish is not released yet

	unanswered <-chan []error // not nil: Publish has not returned in its time
}

func newBoard(cfg *RelayConfig) *board {
	b := &board{
		configs: cfg.Topics, batch: cfg.Batch, calls: cfg.Concurrency,
		topics: map[string]*topic{}, parts: map[int]*heldPart{}, paused: map[stream]struct{}{}, underWay: map[*unit]time.Time{},
	}
	for c := range b.woken {
		b.woken[c] = make(chan struct{}, 1)
	}
	return b
}

// hold notes the parts that this process holds, and reports whether some of them are new.
func (b *board) hold(held []hold.Part) (changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	keep := map[int]*heldPart{}
	for _, h := range held {
		p := b.parts[h.Number]
		if p == nil || p.Fence != h.Fence {
			b.dropPart(h.Number)
			p = &heldPart{Part: h}
			changed = true
		}
		if !p.doubted.IsZero() && now.After(p.doubted) {
			*p = heldPart{Part: h}
			changed = true
		}
		keep[h.Number] = p
	}
	for n := range b.parts {
		if keep[n] == nil {
			b.dropPart(n)
		}
	}
	b.parts = keep
	return changed
}

// dropPart forgets the queues of a part.
func (b *board) dropPart(number int) {
	for _, t := range b.topics {
		t.queues = slices.DeleteFunc(t.queues, func(q *queue) bool {
			if q.part.Number == number {
				q.gone = true
			}
			return q.gone
		})
	}
}

// doubt leaves parts alone for a moment, which another process seems to hold: then they are read from their beginning.
func (b *board) doubt(held []hold.Part) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, h := range held {
		if p := b.parts[h.Number]; p != nil && p.Part == h {
			b.dropPart(h.Number)
			p.known, p.doubted = false, time.Now().Add(time.Second)
		}
	}
}

// know notes that all queues with failures of the parts held are known.
func (b *board) know(parts []hold.Part) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, h := range parts {
		if p := b.parts[h.Number]; p != nil && p.Part == h && p.doubted.IsZero() {
			p.known = true
		}
	}
}

// unknownParts returns the parts of which queues with failures are not known.
func (b *board) unknownParts() (parts []hold.Part) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.parts {
		if !p.known && p.doubted.IsZero() {
			parts = append(parts, p.Part)
		}
	}
	return parts
}

// knownParts returns the numbers of the parts that can be read.
func (b *board) knownParts() (numbers []int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for n, p := range b.parts {
		if p.known {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers
}

// queue returns the queue of a topic in a part, or nil if this process does not hold it.
func (b *board) queue(name string, part int, now time.Time) *queue {
	p := b.parts[part]
	if p == nil || !p.doubted.IsZero() {
		return nil
	}
	t := b.topic(name, now)
	for _, q := range t.queues {
		if q.part == p.Part {
			return q
		}
	}
	q := &queue{topic: t, part: p.Part, rows: leastRows}
	t.queues = append(t.queues, q)
	return q
}

func (b *board) topic(name string, now time.Time) *topic {
	t := b.topics[name]
	if t == nil {
		t = &topic{name: name, TopicConfig: b.configs[name], used: now}
		t.Concurrency = cmp.Or(max(0, t.Concurrency), b.calls)
		t.tokens = max(1, t.Rate)
		_, t.paused = b.paused[stream{topic: name}]
		b.topics[name] = t
	}
	return t
}

// foundRows notes that a queue has messages: the lowest and the highest id of what was read by a statement that began at read. first is
// that there is no lower one.
func (b *board) foundRows(name string, part int, lowest, highest int64, first bool, read time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	q := b.queue(name, part, now)
	switch {
	case q == nil || !b.parts[part].known:
		return
	case lowest > q.mark:
	case q.inTrouble(), q.released.After(read): // pages find it; it may be deleted since
	case !q.claimed:
		q.rewind(lowest, now)
	case !first && (q.late == 0 || lowest < q.late):
		q.late = lowest
	}
	q.tail = max(q.tail, highest)
	b.list(q.topic, now)
}

// held returns the queue of a topic in a part, or nil if this process does not hold it.
func (b *board) held(name string, part int) *queue {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.queue(name, part, time.Now())
}

// foundFailures notes which queues have failures, and how many messages of them are tried again, as statements have found that began at read.
func (b *board) foundFailures(found map[queueKey]int, read time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for _, t := range b.topics {
		for _, q := range t.queues {
			failing, failed := found[queueKey{t.name, q.part.Number}]
			if q.claimed || q.released.After(read) || q.failed == failed && q.failing == failing {
				continue
			}
			q.failed, q.failing = failed, failing
			q.waiting = q.waiting || failed
			b.list(t, now)
		}
	}
}

// setPaused notes what is paused. Keys that are not any more are read.
func (b *board) setPaused(paused map[stream]struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.paused
	b.paused = paused
	for s := range before {
		if _, still := paused[s]; still {
			continue
		}
		t := b.topics[s.topic]
		if t == nil {
			continue
		}
		for _, q := range t.queues {
			q.free(s.key)
		}
	}
	for _, t := range b.topics {
		_, t.paused = paused[stream{topic: t.name}]
		if !t.paused {
			b.list(t, time.Now())
		}
	}
}

// isPaused reports whether a key is paused by itself.
func (b *board) isPaused(s stream) bool {
	_, paused := b.paused[s]
	return paused && s.key != ""
}

// list puts a topic into its list if there is something to do for it.
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

// pick returns work of a class, and when to look again if there is none; zero: when it is woken.
func (b *board) pick(c class) (units []*unit, again time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for len(b.timers) > 0 && !b.timers[0].at.After(now) {
		due := heap.Pop(&b.timers).(timer) //nolint:errcheck,forcetypeassert // the heap has nothing else
		if due.topic.timer.Equal(due.at) {
			due.topic.timer = time.Time{}
			b.list(due.topic, now)
		}
	}
	rows, queues := b.batch, 0
	for rows > 0 && queues < maxQueues {
		// Most turns are for those that were idle, but not all.
		from := &b.first[c]
		if from.len() == 0 || len(units)%4 == 3 && b.others[c].len() > 0 {
			from = &b.others[c]
		}
		if from.len() == 0 {
			break
		}
		t := from.pop()
		t.place = placeNone
		if t.inTrouble() != (c == classTrouble) {
			b.list(t, now)
			continue
		}
		if u := b.unit(t, c, rows, now); u != nil {
			units = append(units, u)
			rows -= u.most
			queues += len(u.queues)
		}
	}
	if len(b.timers) > 0 {
		again = b.timers[0].at
	}
	return units, again
}

// unit takes work of a topic with at most so many rows.
func (b *board) unit(t *topic, c class, rows int, now time.Time) *unit {
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
	n := t.allowed(rows)
	each := n
	if t.down > 0 { // messages of all queues, if there are several
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
		n -= taken
	}
	t.turn, t.next, t.used = (t.turn+len(u.queues))%len(t.queues), (w+1)%works, now
	if t.Rate > 0 {
		u.taken = u.most
		t.tokens -= float64(u.taken)
	}
	if t.calls++; t.calls == 1 {
		t.calledAt = now
	}
	if !u.before {
		b.unknown++
	}
	b.underWay[u] = now
	b.list(t, now) // for its other queues
	return u
}

// mayCall reports whether the process has a call of Publish left for a topic.
func (b *board) mayCall(t *topic, now time.Time) bool {
	switch {
	case len(b.underWay) >= maxCalls:
		return false
	case !t.answered && b.unknown >= maxUnknown:
		return false
	case len(b.underWay) < maxCalls/2 || !t.inTrouble() && !t.slow(now):
		return true
	}
	bad := 0
	for u, began := range b.underWay {
		if u.class == classTrouble || now.Sub(began) > slowCall {
			bad++
		}
	}
	return bad < maxCalls/2
}

// release gives the call of Publish of a unit back.
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
	for range min(b.parked.len(), unparked) { // some may not need what was released
		t := b.parked.pop()
		t.place = placeNone
		b.list(t, now)
	}
}

// settled gives the queues of a unit back, whose items have their outcomes.
func (b *board) settled(u *unit) {
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
		t.tokens += float64(u.taken - published)
	}
	if u.work == workClaim {
		if t.blind++; published > 0 {
			t.blind = 0
		}
	}
	for _, q := range u.queues {
		q.settle(u.work, of[q], u.took, now)
	}
	b.list(t, now)
}

// leave leaves queues out of a unit whose parts are not held any more.
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

// giveBack gives a unit back of which nothing was read.
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

// newlyFull reports, once, that a queue of a topic has too many failing messages.
func (b *board) newlyFull(t *topic) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	told := t.told
	t.told = slices.ContainsFunc(t.queues, (*queue).full)
	return t.told && !told
}

// isRead notes that keys have no more messages to be read.
func (b *board) isRead(keys []keyOf) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range keys {
		delete(k.queue.freed, k.key)
	}
}

// poll is how long the failures of a queue are not looked at: not all of many queues are each second.
func (b *board) poll() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(retryPoll, time.Duration(len(b.topics))*time.Millisecond)
}

// isDown puts a topic aside whose destination was not available. wait says for how long, when that has happened several times in a row.
func (b *board) isDown(t *topic, cause error, asked bool, probe int, wait func(times int) time.Duration) {
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
	if t.cause = cause; t.down == 1 {
		t.since = now
	}
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

// forget forgets topics that are idle.
func (b *board) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for name, t := range b.topics {
		if t.idle(now) {
			delete(b.topics, name)
			for _, q := range t.queues {
				q.gone = true
			}
		}
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

func (t timers) Len() int           { return len(t) }
func (t timers) Less(i, j int) bool { return t[i].at.Before(t[j].at) }
func (t timers) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }
func (t *timers) Push(x any)        { *t = append(*t, x.(timer)) } //nolint:errcheck,forcetypeassert // of this package only

// Pop implements [heap.Interface].
func (t *timers) Pop() any {
	old := *t
	last := old[len(old)-1]
	*t = old[:len(old)-1]
	return last
}
