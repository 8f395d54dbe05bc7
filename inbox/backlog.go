package inbox

import (
	"sync"
	"time"

	"github.com/oncelib/once/message"
)

// Backlog is the messages that the consumers of an inbox have in this process and that are not applied, and what holds them up. Each kind
// names its oldest one.
type Backlog struct {
	Ready     int // messages that a handler could begin with
	Postponed int // messages that have failed and wait for their next attempt, or that wait for another one of their key
	Paused    int // partitions that are not fetched, because messages in trouble have used their limits
	Hanging   int // handlers that go on although their time (Config.HandlerTimeout) is over

	ReadyOldest, PostponedOldest, PausedOldest, HangingOldest Waiting
}

// Waiting is a message, or a partition, and since when it waits in this process. Since is zero if there is none.
type Waiting struct {
	Source, Topic, Key string
	Partition          int32 // of Paused
	Since              time.Time
}

// Older returns the one that waits for longer.
func (w Waiting) Older(other Waiting) Waiting {
	if w.Since.IsZero() || !other.Since.IsZero() && other.Since.Before(w.Since) {
		return other
	}
	return w
}

// waitingOf is a message that waits.
func waitingOf(m *message.Message, since time.Time) Waiting {
	return Waiting{Source: m.Source, Topic: m.Topic, Key: m.Key, Since: since}
}

// Backlog returns the backlog of the consumers in this process. It does not ask the database.
func (in *Inbox[TX]) Backlog() (b Backlog) {
	for _, each := range in.consumers.all() {
		one := each()
		b.Ready, b.Postponed, b.Paused = b.Ready+one.Ready, b.Postponed+one.Postponed, b.Paused+one.Paused
		b.ReadyOldest, b.PostponedOldest = b.ReadyOldest.Older(one.ReadyOldest), b.PostponedOldest.Older(one.PostponedOldest)
		b.PausedOldest = b.PausedOldest.Older(one.PausedOldest)
	}
	b.Hanging, b.HangingOldest = in.hanging.all()
	return b
}

// Hanging returns how many handlers go on although their time is over.
func (in *Inbox[TX]) Hanging() int {
	n, _ := in.hanging.all()
	return n
}

// Attach adds what a consumer has to [Inbox.Backlog], until detach is called. Consumers of the broker modules call it.
func (in *Inbox[TX]) Attach(of func() Backlog) (detach func()) { return in.consumers.add(of) }

// consumers is where the backlogs of consumers are asked for.
type consumers struct {
	mu   sync.Mutex
	list map[*func() Backlog]struct{}
}

func (c *consumers) add(of func() Backlog) (remove func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.list == nil {
		c.list = map[*func() Backlog]struct{}{}
	}
	c.list[&of] = struct{}{}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.list, &of)
	}
}

func (c *consumers) all() (list []func() Backlog) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for of := range c.list {
		list = append(list, *of)
	}
	return list
}

// hanging is handlers that go on although their time is over, by message.
type hanging struct {
	mu   sync.Mutex
	list map[identity]hangingCall
}

type hangingCall struct {
	Waiting

	ended *bool // names the call
}

// begin notes a handler that began at a time, unless it has ended meanwhile.
func (h *hanging) begin(m *message.Message, ended *bool, began time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if *ended {
		return
	}
	if h.list == nil {
		h.list = map[identity]hangingCall{}
	}
	h.list[identity{m.Source, m.ID}] = hangingCall{waitingOf(m, began), ended}
}

// end notes that a handler has ended.
func (h *hanging) end(m *message.Message, ended *bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	*ended = true
	if id := (identity{m.Source, m.ID}); h.list[id].ended == ended {
		delete(h.list, id)
	}
}

// since reports whether a handler of a message hangs, and when it has begun.
func (h *hanging) since(m *message.Message) (time.Time, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c, hangs := h.list[identity{m.Source, m.ID}]
	return c.Since, hangs
}

// all returns how many there are, and the oldest one.
func (h *hanging) all() (n int, oldest Waiting) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.list {
		oldest = oldest.Older(c.Waiting)
	}
	return len(h.list), oldest
}
