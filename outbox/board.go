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

// board records in memory which topics have work, and which topic is next. No method of board reads the
// database.
//
// A topic that is down, paused, out of tokens or at its Concurrency is in no list. Meanwhile the relay does not
// read the topic, and the marks of its queues do not move.
type board struct {
	mu      sync.Mutex
	configs map[string]TopicConfig
	batch   int
	calls   int // the maximum number of running calls of one topic, unless TopicConfig says otherwise

	topics map[string]*topic
	parts  map[int]*ownPart
	paused map[stream]struct{} // streams that a person has paused; key "" means the whole topic
	first  [classes]list       // topics that had no work until now: they do not wait for topics with a backlog
	others [classes]list
	parked list
	timers timers
	woken  [classes]chan struct{}

	underWay map[*unit]time.Time // running calls of Publish
	unknown  int                 // running calls of topics that have never answered
	downs    int                 // topics that are down
	failing  time.Time           // since when all attempts have reached no destination; zero if the last attempt has reached one
}

// ownPart is a part that this process holds.
type ownPart struct {
	hold.Part

	known   bool      // the relay knows which queues of the part have failures
	doubted time.Time // until this time the relay does not read the part, because another process seems to hold it
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

// hold takes over the list of parts that this process holds now, and reports whether some of them are new.
func (b *board) hold(held []hold.Part) (changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	keep := map[int]*ownPart{}
	for _, h := range held {
		p := b.parts[h.Number]
		if p == nil || p.Fence != h.Fence {
			// Another process has held the part meanwhile, so the state of its queues may be wrong.
			b.dropPart(h.Number)
			p = &ownPart{Part: h}
			changed = true
		}
		if !p.doubted.IsZero() && now.After(p.doubted) {
			// The doubt is over. The new state makes the relay read the part from its beginning.
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

// doubt stops the work on parts for one second, because another process seems to hold them. After this second
// the relay reads the parts from their beginning.
func (b *board) doubt(held []hold.Part) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, h := range held {
		// If the fence has changed, this process has taken the part again, and the doubt concerns an older
		// hold.
		if p := b.parts[h.Number]; p != nil && p.Part == h {
			b.dropPart(h.Number)
			p.known, p.doubted = false, time.Now().Add(time.Second)
		}
	}
}

// know records that the relay knows all queues with failures of the held parts.
func (b *board) know(parts []hold.Part) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, h := range parts {
		// The part may have been lost or doubted since the scan began. The result of the scan is then too old.
		if p := b.parts[h.Number]; p != nil && p.Part == h && p.doubted.IsZero() {
			p.known = true
		}
	}
}

// unknownParts returns the parts of which the relay does not know yet which queues have failures.
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

// knownParts returns the numbers of the parts that the relay may read.
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

// queue returns the queue of a topic in a part, or nil if this process does not hold the part.
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

// foundRows records that a queue has messages with ids from lowest to highest. A statement that began at the
// time read has found them. The parameter first says that lowest is the lowest id of the queue.
func (b *board) foundRows(name string, part int, lowest, highest int64, first bool, read time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	q := b.queue(name, part, now)
	switch {
	case q == nil || !b.parts[part].known:
		// Before the failures are known, a later message of a failed key could be delivered first.
		return
	case lowest > q.mark:
	case q.inTrouble(), q.released.After(read): // a page finds the message, or the message was deleted after the read
	case !q.claimed:
		q.rewind(lowest, now)
	case !first && (q.late == 0 || lowest < q.late):
		// A unit works on the queue now. The unit rewinds the queue when the unit is finished.
		q.late = lowest
	}
	q.tail = max(q.tail, highest)
	b.list(q.topic, now)
}

// held returns the queue of a topic in a part, or nil if this process does not hold the part.
func (b *board) held(name string, part int) *queue {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.queue(name, part, time.Now())
}

// foundFailures records the queues with failures, and how many of their messages are tried again. The
// statements that found the failures began at the time read.
func (b *board) foundFailures(found map[queueKey]int, read time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	set := func(q *queue, failed bool, failing int) {
		// A unit has changed the queue since the read, so its own numbers are newer.
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

// setPaused records the paused topics and keys. The relay reads keys that are no longer paused.
func (b *board) setPaused(paused map[stream]struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.paused
	// This is the usual case, in which no queue must be changed.
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
		// Messages of the key may be below the mark, so the relay reads them by their key.
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

// isPaused reports whether a key has a pause of its own.
func (b *board) isPaused(s stream) bool {
	_, paused := b.paused[s]
	return paused && s.key != ""
}

// poll returns the pause between two reads of the failures of a queue. The pause grows with the number of
// topics, so that a relay with many topics does not read all of their queues each second.
func (b *board) poll() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(retryPoll, time.Duration(len(b.topics))*time.Millisecond)
}

// forget removes idle topics from memory.
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
