package outbox

import (
	"sync"
	"sync/atomic"
	"time"
)

// topics are the bounds of single topics in this process, and which of them cannot be delivered now. Lanes share them.
type topics struct {
	mu      sync.Mutex
	known   map[string]*topic // those with bounds, and those that are down
	returns atomic.Uint64     // grows when a topic that was down is delivered again
}

// topic is the state of a topic with bounds, or of one that is down.
type topic struct {
	TopicConfig

	down  int       // how often in a row its destination was not available
	until time.Time // put aside for so long

	tokens   float64 // messages that can be published now: at most those of a second, and one
	counted  time.Time
	underWay int // calls of Publish
}

func newTopics(configs map[string]TopicConfig) *topics {
	t := &topics{known: map[string]*topic{}}
	for name, c := range configs {
		if c.Rate > 0 || c.Concurrency > 0 {
			t.known[name] = &topic{TopicConfig: c, tokens: max(1, c.Rate)}
		}
	}
	return t
}

// take returns how many of n messages of a topic can be published now. release is called after that, if it
// is at least one.
func (t *topics) take(name string, n int) (allowed int, release func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.known[name]
	if of == nil {
		return n, func() {}
	}
	if allowed = min(n, of.allowed()); allowed == 0 {
		return 0, nil
	}
	of.tokens -= float64(allowed)
	of.underWay++
	return allowed, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		of.underWay--
	}
}

// down puts a topic aside whose destination was not available. some says that a part of what was published was
// confirmed; wait says how long to wait for a destination that was down several times in a row.
func (t *topics) down(name string, some bool, wait func(times int) time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.known[name]
	if of == nil {
		of = new(topic)
		t.known[name] = of
	}
	if of.aside() { // another lane has said so: it is the same time
		return
	}
	if some {
		of.down = 0
	}
	of.down++
	of.until = time.Now().Add(wait(of.down))
}

// up notes that the destination of a topic is there.
func (t *topics) up(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.known[name]
	if of == nil || of.down == 0 {
		return
	}
	of.down, of.until = 0, time.Time{}
	if of.TopicConfig == (TopicConfig{}) {
		delete(t.known, name)
	}
	t.returns.Add(1)
}

// maxBusy bounds the length of a statement.
const maxBusy = 100

// busy returns topics of which no message can be published now: no more than maxBusy of them.
func (t *topics) busy() (names []any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, of := range t.known {
		if len(names) < maxBusy && of.allowed() == 0 {
			names = append(names, name)
		}
	}
	return names
}

// isBusy reports whether no message of a topic can be published now.
func (t *topics) isBusy(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.known[name]
	return of != nil && of.allowed() == 0
}

// aside reports whether the topic is down, and is not tried yet.
func (t *topic) aside() bool { return t.down > 0 && time.Now().Before(t.until) }

// allowed is how many messages can be published now.
func (t *topic) allowed() int {
	if t.aside() || t.Concurrency > 0 && t.underWay >= t.Concurrency {
		return 0
	}
	if t.Rate <= 0 {
		return int(^uint(0) >> 1)
	}
	now := time.Now()
	if !t.counted.IsZero() {
		t.tokens = min(max(1, t.Rate), t.tokens+t.Rate*now.Sub(t.counted).Seconds())
	}
	t.counted = now
	return int(t.tokens)
}
