package consume

import (
	"context"
	"errors"
	"time"

	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/message"
)

// poll is the interval at which a worker asks a full capacity again while no batch of this pool ends.
const poll = 20 * time.Millisecond

// work is a batch that a worker has taken.
type work struct {
	batch   []*Delivery
	lines   []*line
	began   time.Time
	class   class
	slow    bool              // the batch takes long
	release func(useful bool) // the place in the capacity
}

// handleNext waits for messages until ctx ends, and handles them with the context handlers. It returns false at the end.
func (p *Pool) handleNext(ctx, handlers context.Context) bool {
	w := p.take(ctx)
	if w == nil {
		return false
	}
	results := p.handle(handlers, w.batch)
	p.answer(w, results)
	return true
}

// take waits for a batch. It returns nil after ctx has ended.
func (p *Pool) take(ctx context.Context) *work {
	p.mu.Lock()
	defer p.mu.Unlock()
	for ctx.Err() == nil {
		now := time.Now()
		wake := p.backlog.due(now, func(d *Delivery) bool { return p.returnsHeld(d, now) })
		if p.backlog.hasReady() {
			// Every worker would only get the same refusal, so all of them wait for the end of the pause.
			if now.Before(p.pressure.until) {
				wake = sooner(wake, p.pressure.until)
			} else if c, ok := p.choose(now); ok {
				if w := p.begin(c); w != nil {
					return w
				}
				// The capacity was full. Other pools may use it, so its places are polled.
				if p.backlog.hasReady() {
					wake = sooner(wake, now.Add(poll))
				}
			} else {
				wake = sooner(wake, p.restEnds(now))
				if p.sink.Hanging() > 0 { // a hanging handler may return at any time
					wake = sooner(wake, now.Add(poll))
				}
			}
		}
		p.wakeAt(now, wake)
		p.work.Wait()
	}
	return nil
}

// begin takes a batch of a class if a place is free. The free workers share the waiting messages.
func (p *Pool) begin(c class) *work {
	w := &work{began: time.Now(), class: c, release: func(bool) {}}
	places := p.pressure.limit() - len(p.working)
	if p.cfg.Capacity != nil {
		release, ok := p.cfg.Capacity.Acquire()
		if !ok {
			return nil
		}
		w.release = release
		places = max(1, min(places, p.cfg.Capacity.Limit()-len(p.working)))
	}
	// An even share, so that one worker does not take all messages while others are idle.
	share := (p.backlog.waiting + places - 1) / places
	if c == hung { // a message that may hang must not take others with it
		share = 1
	}
	w.batch, w.lines = p.backlog.take(c, min(share, p.cfg.Batch))
	if len(w.batch) == 0 { // all messages were dropped
		// The place is returned at once, and no duration is measured.
		p.room.Broadcast()
		w.release(false)
		return nil
	}
	for _, d := range w.batch {
		d.inHand = true
	}
	p.working[w] = struct{}{}
	p.busy[c]++
	if c != healthy {
		p.lastTrouble = c
	}
	return w
}

// wakeAt wakes a worker at a time. The zero time means never.
func (p *Pool) wakeAt(now, at time.Time) {
	switch {
	case at.IsZero():
	case p.alarm == nil:
		p.alarm = time.AfterFunc(at.Sub(now), func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.work.Broadcast()
		})
	default:
		p.alarm.Reset(at.Sub(now))
	}
}

// handle passes a batch to the sink. Messages that could not be decoded are passed one by one.
func (p *Pool) handle(ctx context.Context, batch []*Delivery) []inbox.Result {
	results := make([]inbox.Result, len(batch))
	messages := make([]message.Message, 0, len(batch))
	at := make([]int, 0, len(batch))
	for i, d := range batch {
		if d.Malformed != nil {
			results[i] = p.refuse(ctx, d)
			continue
		}
		messages = append(messages, d.Message)
		at = append(at, i)
	}
	if len(messages) > 0 {
		for i, r := range p.apply(ctx, messages) {
			results[at[i]] = r
		}
	}
	return results
}

var errGoexit = errors.New("consume: the handler has called runtime.Goexit. Try: return an error instead")

// apply passes messages to the sink in a separate goroutine, because a handler may end its goroutine. The worker stays.
func (p *Pool) apply(ctx context.Context, messages []message.Message) []inbox.Result {
	ended := make(chan []inbox.Result, 1)
	n := len(messages)
	go func() {
		var results []inbox.Result
		defer func() { ended <- results }()
		results = p.sink.HandleBatch(ctx, messages)
	}()
	results := <-ended
	if results != nil {
		return results
	}
	// No result: every message of the batch counts as failed, because it is unknown how far the handler came.
	results = make([]inbox.Result, n)
	for i := range results {
		results[i].Err = errGoexit
	}
	return results
}

// answer reports the results of a batch to the broker, and releases the lines of the worker.
func (p *Pool) answer(w *work, results []inbox.Result) {
	refused := isRefused(results, w.class != healthy)
	// If the database has refused a batch, its duration says nothing about the capacity.
	w.release(!refused)
	now := time.Now()
	kept := make(map[*line]*again)
	var gone []*Delivery
	for i, d := range w.batch {
		err := results[i].Err
		if err == nil {
			d.Receipt.Ack()
			gone = append(gone, d)
			continue
		}
		wait := time.Duration(0)
		// An untried message has not failed, so it is tried again at once and its failures do not count.
		if !isUntried(err) {
			d.failures++
			wait = delay(max(d.failures, d.Message.Delivery), err)
			if d.Receipt.Again(wait) {
				gone = append(gone, d)
				continue
			}
		}
		// The broker cannot redeliver the message, so the pool keeps it until its next attempt.
		if kept[d.line] == nil {
			kept[d.line] = &again{at: sooner(now.Add(wait), p.holdEnds(d)), line: d.line}
		}
		kept[d.line].list = append(kept[d.line].list, d)
	}

	// All under one lock, so that no worker sees a line before its failed messages are back.
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.working, w)
	p.busy[w.class]--
	p.rest(w.class, w.began, now)
	before, wait := p.pressure.limit(), longestWait(results)
	slow := p.cfg.SlowAcquire > 0 && wait > p.cfg.SlowAcquire
	p.tellPressure(p.pressure.ended(w.began, now, refused, slow), results)
	if n := p.pressure.limit(); n != before {
		p.cfg.Log.Debug("once: consumer: more or fewer transactions may run at once now", "concurrency", n, "wait", wait)
	}
	for i, d := range w.batch {
		p.judge(d, results[i].Err, refused)
		d.inHand = false
		if d.dropped {
			p.forget(d)
		}
	}
	for _, d := range gone {
		p.forget(d)
	}
	for _, s := range w.lines {
		s.inHand, s.slow = false, false
		if a := kept[s]; a != nil {
			p.backlog.postpone(a)
		}
		if s.held {
			p.setQueueApart(s)
		}
		p.backlog.offer(s)
	}
	p.work.Broadcast()
	p.room.Broadcast()
}

// holdEnds returns the time when the message must go back to the broker if it waits for its next attempt, or the zero time.
func (p *Pool) holdEnds(d *Delivery) time.Time {
	if p.cfg.Hold == 0 {
		return time.Time{}
	}
	return d.since.Add(p.cfg.Hold)
}

// returnsHeld gives a message back to the broker if the pool has held it for too long. It returns false if the message stays in the pool.
func (p *Pool) returnsHeld(d *Delivery, now time.Time) bool {
	end := p.holdEnds(d)
	if d.dropped || end.IsZero() || now.Before(end) || !d.Receipt.Again(0) {
		return false
	}
	p.forget(d)
	return true
}

// judge updates the class of a message and of its key after a result.
func (p *Pool) judge(d *Delivery, err error, refused bool) {
	switch {
	case err == nil:
		delete(p.backlog.suspects, suspectKey(d))
		return
	case isUntried(err), refused && d.failures < refusedOften:
		// The database has refused the whole batch, which says nothing about this message.
		return
	case errors.Is(err, inbox.ErrHandlerTimeout):
		p.backlog.suspects.add(d)
	}
	d.class = failing
	if !d.dropped {
		p.setApart(d)
	}
}

// refusedOften is how often the database may refuse a message before this counts as a failure of the message.
const refusedOften = 3

// isUntried reports whether err says that the message was not tried, and so has not failed.
func isUntried(err error) bool {
	var untried interface{ Untried() bool }
	return errors.As(err, &untried) && untried.Untried()
}

// tellPressure logs when a pause begins, and when the first batch succeeds again.
func (p *Pool) tellPressure(changed bool, results []inbox.Result) {
	switch {
	case !changed:
	case p.pressure.refusals == 0:
		p.cfg.Log.Info("once: consumer: the consumer continues, because the database accepts messages again")
	default:
		p.cfg.Log.Warn("once: consumer: the consumer pauses, because the database accepts no messages now. Try: check the database, or set a smaller Concurrency",
			"concurrency", p.pressure.limit(), "error", results[0].Err)
	}
}

// sooner returns the earlier of two times. The zero time means never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
