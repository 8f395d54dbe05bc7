package outbox

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/oncelib/once/internal/sql/hold"
	"github.com/oncelib/once/message"
)

// board records which topics have work, and which topic is next. None of its methods reads the database.
//
// A topic that is down, paused, out of tokens or at its Concurrency is in no list. Meanwhile it is not read,
// and its marks do not move.
type board struct {
	mu      sync.Mutex
	configs map[string]TopicConfig
	batch   int
	calls   int // of one topic at once, unless TopicConfig says otherwise

	topics map[string]*topic
	parts  map[int]*ownPart
	paused map[stream]struct{} // by a person; key "" means the whole topic
	first  [classes]list       // topics that were idle: they do not wait for topics with a backlog
	others [classes]list
	parked list
	timers timers
	woken  [classes]chan struct{}

	underWay map[*unit]time.Time // running calls of Publish
	unknown  int                 // running calls of topics that have never answered
	downs    int                 // topics that are down
	failing  time.Time           // since when no destination was reached; zero if the last attempt reached one
}

// ownPart is a part that this process holds.
type ownPart struct {
	hold.Part

	known   bool      // the queues with failures are known
	doubted time.Time // until this time another process seems to hold the part
}

// stream is a topic and an ordering key, whose messages have an order.
type stream struct{ topic, key string }

func streamOf(m *message.Message) stream { return stream{m.Topic, m.Key} }

func newBoard(cfg *RelayConfig) *board {
	b := &board{
		configs: cfg.Topics, batch: cfg.Batch, calls: cfg.Concurrency,
		topics: map[string]*topic{}, parts: map[int]*ownPart{}, paused: map[stream]struct{}{}, underWay: map[*unit]time.Time{},
	}
	for c := range b.woken {
		b.woken[c] = make(chan struct{}, 1)
	}
	return b
}

// hold takes over the parts that this process holds now, and reports whether some of them are new.
func (b *board) hold(held []hold.Part) (changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	keep := map[int]*ownPart{}
	for _, h := range held {
		p := b.parts[h.Number]
		if p == nil || p.Fence != h.Fence {
			// Another process has held the part in between, so everything known of its queues may be wrong.
			b.dropPart(h.Number)
			p = &ownPart{Part: h}
			changed = true
		}
		if !p.doubted.IsZero() && now.After(p.doubted) {
			*p = ownPart{Part: h}
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

// doubt stops the work on parts for a moment, because another process seems to hold them. After that they are
// read from their beginning.
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

// know records that all queues with failures of the held parts are known.
func (b *board) know(parts []hold.Part) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, h := range parts {
		if p := b.parts[h.Number]; p != nil && p.Part == h && p.doubted.IsZero() {
			p.known = true
		}
	}
}

// unknownParts returns the parts whose queues with failures are not known yet.
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

// foundRows records that a queue has messages. A statement that began at the time read has found ids from
// lowest to highest. first says that the queue has no lower id.
func (b *board) foundRows(name string, part int, lowest, highest int64, first bool, read time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	q := b.queue(name, part, now)
	switch {
	case q == nil || !b.parts[part].known:
		return
	case lowest > q.mark:
	case q.inTrouble(), q.released.After(read): // pages find it; or it was deleted meanwhile
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

// foundFailures records the queues with failures, and how many of their messages are tried again. The
// statements that found them began at the time read.
func (b *board) foundFailures(found map[queueKey]int, read time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	set := func(q *queue, failed bool, failing int) {
		if q.claimed || q.released.After(read) {
			return
		}
		q.failed, q.failing, q.waiting = failed, failing, q.waiting || failed
		b.list(q.topic, now)
	}
	for key, failing := range found {
		if q := b.queue(key.topic, key.part, now); q != nil {
			set(q, true, failing)
		}
	}
	for _, t := range b.topics {
		for _, q := range t.queues {
			if !q.failed {
				continue
			}
			if _, failed := found[queueKey{t.name, q.part.Number}]; !failed {
				set(q, false, 0)
			}
		}
	}
}

// setPaused records the paused topics and keys. Keys that are no longer paused are read.
func (b *board) setPaused(paused map[stream]struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.paused
	if maps.Equal(before, paused) {
		return
	}
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

// poll is the pause between two reads of the failures of a queue. It grows with the number of queues, so that not all of many are read each second.
func (b *board) poll() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(retryPoll, time.Duration(len(b.topics))*time.Millisecond)
}

// forget forgets topics that are idle.
func (b *board) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for name, t := range b.topics {
		if !t.idle(now) {
			continue
		}
		delete(b.topics, name)
		if t.down > 0 {
			b.downs--
		}
		for _, q := range t.queues {
			q.gone = true
		}
	}
}
