package inbox

import (
	"sync"
	"time"

	"github.com/oncelib/once/message"
)

// Backlog counts the messages that this process has received for an inbox and has not yet applied. Backlog has
// one number for each reason why messages wait, and names the oldest message for each reason.
type Backlog struct {
	Ready     int // messages that a handler could begin now
	Postponed int // messages that wait for their next attempt after a failure, or for an earlier message of their key
	Paused    int // partitions that are not fetched, because too many of their messages are failing
	Hanging   int // handlers that are still running after their time limit (Config.HandlerTimeout)

	ReadyOldest, PostponedOldest, PausedOldest, HangingOldest Waiting
}

// Waiting is a message or a partition that waits in this process. Since is zero if nothing waits.
type Waiting struct {
	Source, Topic, Key string
	Partition          int32 // the number of the partition, for Paused
	Since              time.Time
}

// Older compares w with the parameter other, and returns the Waiting that has waited longer.
func (w Waiting) Older(other Waiting) Waiting {
	// A zero Since means that nothing waits, so it never counts as the longer wait.
	if w.Since.IsZero() || !other.Since.IsZero() && other.Since.Before(w.Since) {
		return other
	}
	return w
}

// waitingOf returns the Waiting of a message that has waited since the given time.
func waitingOf(m *message.Message, since time.Time) Waiting {
	return Waiting{Source: m.Source, Topic: m.Topic, Key: m.Key, Since: since}
}

// Backlog returns the backlog of the consumers in this process. Backlog does not ask the database.
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

// Hanging returns how many handlers are still running after their time limit (Config.HandlerTimeout).
func (in *Inbox[TX]) Hanging() int {
	n, _ := in.hanging.all()
	return n
}

// Attach includes the backlog of a consumer in [Inbox.Backlog], until the returned function detach is called. The
// function that is passed to Attach returns the backlog of the consumer. The consumers in the modules of this
// library for NATS, Kafka and other brokers call Attach.
func (in *Inbox[TX]) Attach(of func() Backlog) (detach func()) { return in.consumers.add(of) }

// consumers holds the functions that return the backlogs of the attached consumers.
type consumers struct {
	mu   sync.Mutex
	list map[*func() Backlog]struct{}
}

// add adds a function. The returned remove removes this function again.
func (c *consumers) add(of func() Backlog) (remove func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.list == nil {
		c.list = map[*func() Backlog]struct{}{}
	}
	// The key of the map is the address of the parameter of, because functions cannot be compared.
	c.list[&of] = struct{}{}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.list, &of)
	}
}

// all returns a copy of the list, so that the caller calls the functions without the lock.
func (c *consumers) all() (list []func() Backlog) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for of := range c.list {
		list = append(list, *of)
	}
	return list
}

// hanging holds the handlers that still run after Config.HandlerTimeout, by message.
type hanging struct {
	mu   sync.Mutex
	list map[hangingID]hangingCall
}

// hangingID identifies a message of a handler that hangs. A sender that numbers its messages for each key uses the
// same ID in several keys.
type hangingID struct {
	identity
	stream

	seq int64
}

func hangingOf(m *message.Message) hangingID {
	return hangingID{identity{m.Source, m.ID}, stream{m.Source, m.Topic, m.Key}, m.Seq}
}

// hangingCall is one call of a handler that hangs.
type hangingCall struct {
	Waiting

	ended *bool // shared with the goroutine of the handler; its address identifies the call
}

// begin records a handler that still runs after its time limit. The parameter began is the time of its start.
func (h *hanging) begin(m *message.Message, ended *bool, began time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	// The handler may have returned between the timer and this lock: then it does not hang.
	if *ended {
		return
	}
	if h.list == nil {
		h.list = map[hangingID]hangingCall{}
	}
	h.list[hangingOf(m)] = hangingCall{waitingOf(m, began), ended}
}

// end notes that a handler has ended.
func (h *hanging) end(m *message.Message, ended *bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	*ended = true
	// The entry of the message may belong to a later call, which must stay.
	if id := hangingOf(m); h.list[id].ended == ended {
		delete(h.list, id)
	}
}

// since reports whether a handler of a message hangs, and returns when the handler began.
func (h *hanging) since(m *message.Message) (time.Time, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c, hangs := h.list[hangingOf(m)]
	return c.Since, hangs
}

// all returns the number of hanging handlers, and the oldest one.
func (h *hanging) all() (n int, oldest Waiting) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.list {
		oldest = oldest.Older(c.Waiting)
	}
	return len(h.list), oldest
}
