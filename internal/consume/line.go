package consume

import (
	"container/heap"
	"slices"
	"time"
)

// stream is a source, a topic and an ordering key. The messages of a stream have an order, so two workers never have messages of
// one stream at the same time.
type stream struct{ source, topic, key string }

// line contains the waiting messages of a stream, in order. A message without a key has a separate line.
type line struct {
	key    stream
	queue  []*Delivery
	inHand bool // a worker has messages of the line
	held   bool // a message of the line waits for its next attempt, and later messages must not overtake it
	slow   bool // the worker has had the messages of the line for a long time
	ready  bool // the line is in a lane, from which a worker can take it
	later  int  // the number of entries of the agenda that belong to the line
}

// again contains messages of a line that wait for their next attempt.
type again struct {
	at   time.Time
	line *line
	list []*Delivery
	// holds is true if later messages of the line must wait for these.
	holds bool
}

// agenda is a heap of such entries; the earliest one is first.
type agenda []*again

func (a *agenda) Len() int           { return len(*a) }
func (a *agenda) Less(i, j int) bool { return (*a)[i].at.Before((*a)[j].at) }
func (a *agenda) Swap(i, j int)      { (*a)[i], (*a)[j] = (*a)[j], (*a)[i] }

// Push implements [heap.Interface].
func (a *agenda) Push(x any) { *a = append(*a, x.(*again)) } //nolint:forcetypeassert // only entries of this type are pushed

// Pop implements [heap.Interface].
func (a *agenda) Pop() any {
	last := len(*a) - 1
	x := (*a)[last]
	(*a)[last] = nil
	*a = (*a)[:last]
	return x
}

// backlog contains the messages that no worker has.
type backlog struct {
	lines    map[stream]*line // the lines of the keys
	lanes    [classes]lane    // the lines that a worker can take, by the class of their next message
	suspects suspects
	later    agenda
	waiting  int // the number of messages in lines
}

// lane contains lines that a worker can take, in their order.
type lane []*line

// join sets the line of a message, and makes the line if it does not exist.
func (b *backlog) join(d *Delivery) {
	m := &d.Message
	d.line = &line{}
	if m.Key != "" && d.Malformed == nil {
		key := stream{m.Source, m.Topic, m.Key}
		if b.lines[key] == nil {
			b.lines[key] = &line{key: key}
		}
		d.line = b.lines[key]
	}
}

// add appends a message to its line.
func (b *backlog) add(d *Delivery) {
	s := d.line
	s.queue = append(s.queue, d)
	b.waiting++
	b.offer(s)
}

func (b *backlog) hasReady() bool {
	return len(b.lanes[healthy])+len(b.lanes[failing])+len(b.lanes[hung]) > 0
}

// classOf returns the lane of a line with messages.
func (b *backlog) classOf(s *line) class {
	if b.suspects.has(s.queue[0]) {
		return hung
	}
	return s.queue[0].class
}

// offer adds a line to its lane if a worker can take it.
func (b *backlog) offer(s *line) {
	switch {
	case s.inHand || s.held || s.ready:
	case len(s.queue) > 0:
		s.ready = true
		c := b.classOf(s)
		b.lanes[c] = append(b.lanes[c], s)
	// The line is empty and no message of it will return, so its key is forgotten.
	case s.later == 0 && b.lines[s.key] == s:
		delete(b.lines, s.key)
	}
}

// take takes up to limit messages from the lines of a class. A worker has these lines after that.
func (b *backlog) take(c class, limit int) (batch []*Delivery, of []*line) {
	l := &b.lanes[c]
	for len(batch) < limit && len(*l) > 0 {
		s := (*l)[0]
		(*l)[0] = nil
		*l = (*l)[1:]
		s.ready = false
		if len(s.queue) > 0 && b.classOf(s) != c { // a failed message has returned to the front of the line since the line was offered
			b.offer(s)
			continue
		}
		n := min(len(s.queue), limit-len(batch))
		taken := len(batch)
		for _, d := range s.queue[:n] {
			if !d.dropped {
				batch = append(batch, d)
			}
		}
		b.waiting -= n
		s.queue = slices.Delete(s.queue, 0, n)
		// All its messages were dropped.
		if len(batch) == taken {
			b.offer(s)
			continue
		}
		s.inHand = true
		of = append(of, s)
	}
	return batch, of
}

// postpone keeps failed messages of a line, in order, until their next attempt. Later messages may overtake messages with a
// Seq, because the inbox knows their order. Messages with a key and without a Seq must keep the order of the broker.
func (b *backlog) postpone(a *again) {
	for _, d := range a.list {
		a.holds = a.holds || d.Message.Key != "" && d.Message.Seq == 0 && d.Malformed == nil
	}
	a.line.held = a.line.held || a.holds
	a.line.later++
	heap.Push(&b.later, a)
}

// due makes the messages ready whose time has come. A message for which left returns true has left the pool. It returns the time of the next messages.
func (b *backlog) due(now time.Time, left func(*Delivery) bool) (next time.Time) {
	for len(b.later) > 0 && !b.later[0].at.After(now) {
		a := heap.Pop(&b.later).(*again) //nolint:forcetypeassert // nothing else is in it
		a.list = slices.DeleteFunc(a.list, left)
		a.line.queue = slices.Insert(a.line.queue, 0, a.list...)
		b.waiting += len(a.list)
		a.line.later--
		if a.holds {
			a.line.held = false
		}
		b.offer(a.line)
	}
	if len(b.later) > 0 {
		next = b.later[0].at
	}
	return next
}
