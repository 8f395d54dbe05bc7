package outbox

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/oncelib/once/internal/hold"
)

// Pauses of a lane.
const (
	minIdle   = 5 * time.Millisecond // after nothing was found; it grows slowly, because a lane that is not busy finds nothing now and then
	maxIdle   = time.Second
	throttled = 100 * time.Millisecond // the longest, while a topic has more messages than its bounds allow
	minPace   = time.Millisecond       // between claims that find little
	reloads   = time.Second            // between looks at what has failed and what is paused
	sweeps    = 2 * time.Second
	recents   = minIdle
	share     = 20 // reloads and sweeps take no more than one part in this of the time
)

// lane delivers the messages of some of the parts, one batch after the other. Nothing of it is
// shared with other lanes but the topics' bounds.
type lane struct {
	relay   *Relay
	numbers []int         // its parts, as far as this process holds them
	mask    uint64        // the same, one bit for each
	woken   chan struct{} // a message was added to one of them

	parts    map[int]*part
	doubted  map[hold.Part]time.Time // until when parts are left alone that another process seems to hold
	order    []*part                 // the same, in the order of the next claim
	paused   map[stream]struct{}     // by a person; key "": the whole topic
	limit    int                     // messages of one batch, so that they do not exceed maxBytes
	busy     int                     // parts of which the last claim has found as many messages as it asked for
	waits    bool                    // a topic has more messages than its bounds allow now
	returns  uint64                  // of topics that were down, as far as this lane has seen them
	reloadAt time.Time
	sweepAt  time.Time // of the next sweep of all that is below the marks
	recentAt time.Time // of the next sweep of what the marks have passed lately
	claimed  time.Time
}

func newLane(r *Relay, number int) *lane {
	l := &lane{relay: r, woken: make(chan struct{}, 1), parts: map[int]*part{}, doubted: map[hold.Part]time.Time{}, limit: r.cfg.Batch}
	for n := number; n < parts; n += r.cfg.Concurrency {
		l.numbers = append(l.numbers, n)
		l.mask |= 1 << n
	}
	return l
}

// run works until ctx ends. What is under way then is ended first.
func (l *lane) run(ctx context.Context) {
	failures, idle := 0, minIdle
	for ctx.Err() == nil {
		worked, err := l.work(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			failures++
			l.forget()
			l.relay.databaseFailed(ctx, err, failures)
			continue
		case worked:
			idle = minIdle
			pause(ctx, minPace-time.Since(l.claimed))
		case l.idle(ctx, idle):
			idle = minIdle
			pause(ctx, minPace-time.Since(l.claimed))
		default:
			idle = min(idle+idle/4, maxIdle)
		}
		failures = 0
	}
}

// idle waits, and reports whether it was woken.
func (l *lane) idle(ctx context.Context, d time.Duration) bool {
	if l.waits {
		d = min(d, throttled)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-l.woken:
		return true
	}
	return false
}

// work takes a batch from each place where messages wait, and reports whether there was one.
func (l *lane) work(ctx context.Context) (worked bool, err error) {
	if !time.Now().Before(l.sweepAt) { // the sweep finds out
		l.waits = false
	}
	if n := l.relay.topics.returns.Load(); n != l.returns { // the marks have passed what has waited for the topic
		l.returns = n
		for _, p := range l.parts {
			p.rewind()
		}
	}
	for _, batch := range [...]func(context.Context) (bool, error){l.retry, l.catchUp, l.claim, l.sweep} {
		found, err := l.use(ctx, batch)
		if err != nil || ctx.Err() != nil {
			return worked, err
		}
		worked = worked || found
	}
	return worked, nil
}

// use calls batch for the parts that this process holds, which are not let go meanwhile.
func (l *lane) use(ctx context.Context, batch func(context.Context) (bool, error)) (bool, error) {
	held, done := l.relay.holder.Use(l.numbers)
	defer done()
	l.hold(held)
	if len(l.order) == 0 {
		return false, nil
	}
	if err := l.reload(ctx); err != nil {
		return false, err
	}
	return batch(ctx)
}

// hold forgets what is not held any more, or was held by another process meanwhile.
func (l *lane) hold(held []hold.Part) {
	keep := map[int]*part{}
	for h, until := range l.doubted {
		if time.Now().After(until) {
			delete(l.doubted, h)
		}
	}
	for _, h := range held {
		p := l.parts[h.Number]
		if _, doubted := l.doubted[h]; doubted {
			continue
		}
		if p == nil || p.Fence != h.Fence {
			p = newPart(h)
		}
		keep[h.Number] = p
	}
	l.order = slices.DeleteFunc(l.order, func(p *part) bool { return keep[p.Number] != p })
	for n, p := range keep {
		if l.parts[n] != p {
			l.order = append(l.order, p)
		}
	}
	l.parts = keep
}

// forget has all parts read from their beginning.
func (l *lane) forget() {
	l.parts, l.order = map[int]*part{}, nil
}

// retry delivers messages that have failed and are due.
func (l *lane) retry(ctx context.Context) (bool, error) {
	now := time.Now()
	var due []*failure
	var ids []messageID
	for _, p := range l.order {
		for _, f := range p.failing {
			switch {
			case f.due.After(now) || len(ids) >= l.limit || l.isPaused(f.stream):
			case l.relay.topics.isBusy(f.stream.topic):
				l.waits = true
			default:
				due = append(due, f)
				ids = append(ids, messageID{p.Number, f.id})
			}
		}
	}
	if len(ids) == 0 {
		return false, nil
	}
	items, cut, err := l.read(ctx, l.relay.byID(ids))
	if err != nil {
		return false, err
	}
	if !cut {
		if err := l.removeOrphans(ctx, due, ids, items); err != nil {
			return false, err
		}
	}
	return true, l.deliver(ctx, items)
}

// catchUp delivers messages that wait below the mark, in the order of their keys.
func (l *lane) catchUp(ctx context.Context) (bool, error) {
	const most = 32
	var behind []stream
	of := map[stream]*part{}
	for _, p := range l.order {
		for s := range p.behind {
			switch {
			case len(behind) == most:
			case l.isPaused(s):
				delete(p.behind, s) // the sweep finds it when it is not paused any more
			case l.relay.topics.isBusy(s.topic):
				l.waits = true
				if len(p.behind) >= maxFailures { // other topics do not wait for this one
					delete(p.behind, s) // the sweep finds it
				}
			default:
				behind = append(behind, s)
				of[s] = p
			}
		}
	}
	if len(behind) == 0 {
		return false, nil
	}
	limit := max(1, l.limit/len(behind))
	items, cut, err := l.read(ctx, l.relay.byKey(behind, limit))
	if err != nil {
		return false, err
	}
	slices.SortStableFunc(items, func(a, b *item) int { return cmp.Compare(a.message.Seq, b.message.Seq) })
	if err := l.deliver(ctx, items); err != nil {
		return false, err
	}
	if cut {
		return true, nil
	}
	found := map[stream]int{}
	for _, it := range items {
		if s := streamOf(&it.message); it.outcome == outcomeDelivered {
			found[s]++
		} else {
			found[s] = limit // there is more
		}
	}
	for _, s := range behind {
		if found[s] < limit {
			delete(of[s].behind, s)
		}
	}
	return true, nil
}

// claim delivers the next messages above the marks.
func (l *lane) claim(ctx context.Context) (bool, error) {
	var from []*part
	for _, p := range l.order {
		if l.tellFull(ctx, p); !p.full() && len(p.behind) < maxFailures {
			from = append(from, p)
		}
	}
	l.claimed = time.Now()
	if len(from) == 0 {
		return false, nil
	}
	// A part with a large backlog gets the room of those that have none. The next claim begins with
	// the next part, because the last ones may get nothing.
	each := max(1, l.limit/max(1, l.busy))
	if l.busy == 0 {
		each = max(1, l.limit/len(from))
	}
	l.order = append(l.order[1:], l.order[0])
	items, cut, err := l.read(ctx, l.relay.above(from, each, l.limit))
	if err != nil || len(items) == 0 {
		l.busy = 0
		return false, err
	}
	sortByID(items)
	found := map[*part]int{}
	for _, it := range items {
		found[it.part]++
	}
	l.busy = 0
	for _, n := range found {
		if n >= each || cut {
			l.busy++
		}
	}
	ready, err := l.ready(ctx, items)
	if err == nil {
		err = l.deliver(ctx, ready)
	}
	if err != nil {
		return false, err
	}
	for _, it := range items {
		it.part.mark = max(it.part.mark, it.id)
	}
	for _, it := range items {
		if it.outcome == outcomeLeft {
			it.part.mark = min(it.part.mark, it.id-1)
		}
	}
	return true, nil
}

// sweep delivers messages below the marks: of transactions that have committed late, and of what was
// paused or throttled. Transactions commit out of the order of their ids by milliseconds all the time. So what the marks
// have passed lately is swept often, and the rest, which long transactions leave, now and then.
func (l *lane) sweep(ctx context.Context) (bool, error) {
	began := time.Now()
	all := !began.Before(l.sweepAt)
	if !all && began.Before(l.recentAt) {
		return false, nil
	}
	var from []*part
	for _, p := range l.order {
		if all {
			p.age()
		}
		if p.mark > p.swept(all) && !p.full() {
			from = append(from, p)
		}
	}
	if len(from) == 0 {
		return false, nil
	}
	each := max(1, l.limit/len(from))
	busy := l.relay.topics.busy()
	items, cut, err := l.read(ctx, l.relay.below(from, all, busy, each, l.limit))
	if err != nil {
		return false, err
	}
	l.waits = l.waits || len(busy) > 0 // what was left out
	sortByID(items)
	took := time.Since(began)
	if all {
		l.sweepAt = time.Now().Add(max(sweeps, share*took))
	}
	l.recentAt = time.Now().Add(max(recents, share*took))
	found := map[*part]int{}
	more := cut
	for _, it := range items {
		found[it.part]++
		more = more || found[it.part] >= each
	}
	ready, err := l.ready(ctx, items)
	if err == nil {
		err = l.deliver(ctx, ready)
	}
	switch {
	case all && more:
		l.sweepAt = time.Now().Add(share * took)
	case all && l.waits:
		l.sweepAt = time.Now().Add(max(throttled, share*took))
	}
	return len(ready) > 0, err
}

// sortByID sorts items in the order in which they were added.
func sortByID(items []*item) {
	slices.SortFunc(items, func(a, b *item) int { return cmp.Compare(a.id, b.id) })
}

// ready returns those of items that can be delivered now: not those that wait for another one. It notes
// keys whose earlier messages are still there: a transaction that was slow may commit a message below the mark.
func (l *lane) ready(ctx context.Context, items []*item) ([]*item, error) {
	var ready, unsure []*item
	before := map[stream]int64{}
	for _, it := range items {
		m, p := &it.message, it.part
		s := streamOf(m)
		if it.outcome = outcomeWaits; p.failure(it.id) != nil || l.isPaused(s) {
			continue
		}
		if l.relay.topics.isBusy(m.Topic) { // the sweep finds it
			l.waits = true
			continue
		}
		if m.Key != "" {
			if p.waits(s) {
				continue
			}
			last, known := before[s]
			if !known {
				last = p.last[s]
			}
			if last != m.Seq-1 && m.Seq != 1 {
				unsure = append(unsure, it)
			}
			before[s] = m.Seq
		}
		it.outcome = outcomeLeft
		ready = append(ready, it)
	}
	if len(unsure) == 0 {
		return ready, nil
	}
	if err := l.findPredecessors(ctx, unsure); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(ready, func(it *item) bool {
		if !it.part.waits(streamOf(&it.message)) || it.message.Key == "" {
			return false
		}
		it.outcome = outcomeWaits
		return true
	}), nil
}

// tellFull tells, once, that a person must decide before other messages of a part are read.
func (l *lane) tellFull(ctx context.Context, p *part) {
	full := len(p.stopped) >= maxStopped
	if full && !p.told {
		l.relay.tell(ctx, Event{Type: EventStopped, Err: fmt.Errorf("part %d of the outbox has %d stopped messages: no others of it are read. Try: once outbox resume, or once outbox skip", p.Number, len(p.stopped))})
	}
	p.told = full
}

// isPaused reports whether a person has paused a key or its topic.
func (l *lane) isPaused(s stream) bool {
	_, topic := l.paused[stream{topic: s.topic}]
	_, key := l.paused[s]
	return topic || key
}
