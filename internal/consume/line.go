package consume

import (
	"container/heap"
	"slices"
	"time"
)

// stream is a source, a topic and an ordering key, whose messages have an order: two workers never have messages of the same stream at the same time.
type stream struct{ source, topic, key string }

// line is the messages of a stream that wait, in order. A message without key has a line of its own.
type line struct {
	key    stream
	queue  []*Delivery
	inHand bool // a worker has messages of it
	held   bool // a message of it waits for its next attempt, and the others must not overtake it
	slow   bool // the worker has had its messages for long
	ready  bool // it is in a list of lines that a worker can take
	later  int  // entries of the agenda
}

// again is messages of a line that wait for their next attempt.
type again struct {
	at    time.Time
	line  *line
	list  []*Delivery
	holds bool
}

// agenda is a heap of them, the next one first.
type agenda []*again

func (a *agenda) Len() int           { return len(*a) }
func (a *agenda) Less(i, j int) bool { return (*a)[i].at.Before((*a)[j].at) }
func (a *agenda) Swap(i, j int)      { (*a)[i], (*a)[j] = (*a)[j], (*a)[i] }

// Push implements [heap.Interface].
func (a *agenda) Push(x any) { *a = append(*a, x.(*again)) } //nolint:forcetypeassert // nothing else is pushed

// Pop implements [heap.Interface].
func (a *agenda) Pop() any {
	last := len(*a) - 1
	x := (*a)[last]
	(*a)[last] = nil
	*a = (*a)[:last]
	return x
}

// backlog is messages that no worker has.
type backlog struct {
	lines    map[stream]*line // of keys
	lanes    [classes]lane    // lines that can be taken, by the class of their next message
	suspects suspects
	later    agenda
	waiting  int // messages in lines
}

// lane is lines that can be taken, in turn.
type lane []*line

// join sets the line of a message.
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

// classOf is where a line that has messages can be taken from.
func (b *backlog) classOf(s *line) class {
	if b.suspects.has(s.queue[0]) {
		return hung
	}
	return s.queue[0].class
}

// offer adds a line to the lines that a worker can take, if it can be taken.
func (b *backlog) offer(s *line) {
	switch {
	case s.inHand || s.held || s.ready:
	case len(s.queue) > 0:
		s.ready = true
		c := b.classOf(s)
		b.lanes[c] = append(b.lanes[c], s)
	case s.later == 0 && b.lines[s.key] == s:
		delete(b.lines, s.key)
	}
}

// take takes up to limit messages of the lines of a class, which are in hand then.
func (b *backlog) take(c class, limit int) (batch []*Delivery, of []*line) {
	l := &b.lanes[c]
	for len(batch) < limit && len(*l) > 0 {
		s := (*l)[0]
		(*l)[0] = nil
		*l = (*l)[1:]
		s.ready = false
		if len(s.queue) > 0 && b.classOf(s) != c { // a message that has failed has come back
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
		if len(batch) == taken {
			b.offer(s)
			continue
		}
		s.inHand = true
		of = append(of, s)
	}
	return batch, of
}

// postpone keeps failed messages of a line, in order, until their next attempt. Messages with a number may be overtaken:
// the inbox knows their place. Messages without one must stay in the order of the broker.
func (b *backlog) postpone(a *again) {
	for _, d := range a.list {
		a.holds = a.holds || d.Message.Key != "" && d.Message.Seq == 0 && d.Malformed == nil
	}
	a.line.held = a.line.held || a.holds
	a.line.later++
	heap.Push(&b.later, a)
}

// due makes messages ready whose time has come, and returns the time of the next one.
func (b *backlog) due(now time.Time) (next time.Time) {
	for len(b.later) > 0 && !b.later[0].at.After(now) {
		a := heap.Pop(&b.later).(*again) //nolint:forcetypeassert // nothing else is in it
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
