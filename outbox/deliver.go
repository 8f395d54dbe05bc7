package outbox

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/oncelib/once/message"
	"github.com/oncelib/once/retry"
)

// start has the messages of a unit published, and then finished.
func (r *Relay) start(ctx context.Context, u *unit) {
	var ready []*item
	for _, it := range u.items {
		if it.outcome == outcomeLeft && len(ready) < u.most {
			ready = append(ready, it)
		}
	}
	if len(ready) == 0 {
		r.board.release(u)
		r.board.finished(u)
		u.letGo()
		return
	}
	r.publishing.Go(func() {
		if ctx.Err() == nil { // what is not on its way stays
			r.deliver(ctx, u, ready)
		}
		// A Publish that does not return keeps its call, or each retry of the topic would leave one more behind.
		if u.unanswered == nil {
			r.board.release(u)
		} else {
			board := r.board // another Run has another one
			go func() {
				<-u.unanswered
				board.release(u)
			}()
		}
		r.finisherOf(u).add(u)
	})
}

// deliver publishes items, and notes what it says of their topic.
func (r *Relay) deliver(ctx context.Context, u *unit, items []*item) {
	some, down := r.publishItems(ctx, u, items)
	probe := 1
	if down == nil && !some {
		if down = outage(items); down != nil {
			probe = r.board.nextProbe(u.topic) // one message says nothing
		}
	}
	r.board.noteTry(down == nil || some)
	switch {
	case down == nil:
		r.board.isUp(u.topic, some)
		return
	case some:
		r.board.isUp(u.topic, true)
		_, after := retry.Classify(down)
		r.board.wait(u.topic, max(partPause, min(after, maxAfter)))
	default: // only this topic waits
		_, after := retry.Classify(down)
		r.board.isDown(u.topic, after > 0, probe, func(times int) time.Duration { return r.wait(times, down) })
		r.board.setCause(u.topic, down)
	}
	r.tell(ctx, Event{Type: EventUnavailable, Message: message.Message{Topic: u.topic.name}, Err: down})
}

// outage returns an error if many messages were tried for the first time and all have failed: then it is their destination that is not
// available, although no error says so. Items are left as they were.
func outage(items []*item) error {
	failed := 0
	var last error
	for _, it := range items {
		switch {
		case it.outcome == outcomeFailed && (it.failure != nil || !it.sent || retry.IsPermanent(it.err)):
			return nil
		case it.outcome == outcomeFailed:
			failed, last = failed+1, it.err
		}
	}
	if failed < probeRows {
		// A few failures say nothing about the destination.
		return nil
	}
	for _, it := range items {
		it.outcome = outcomeLeft
	}
	return Unavailable(fmt.Errorf("all of %d messages have failed: %w", failed, last))
}

// publishItems publishes messages of one topic, and says in items what has become of them. down is that the
// destination is not available, and some that it was there for some of them.
func (r *Relay) publishItems(ctx context.Context, u *unit, items []*item) (some bool, down error) {
	waiting := map[keyOf]bool{} // keys of which a message was not delivered: the next ones wait
	undelivered := func(it *item, of outcome, err error) {
		it.outcome, it.err = of, err
		if it.message.Key != "" {
			waiting[keyOf{it.queue, it.message.Key}] = true
		}
	}
	behind := func(it *item) bool {
		k := keyOf{it.queue, it.message.Key}
		if k.key == "" || !waiting[k] {
			return false
		}
		if it.outcome = outcomeWaits; down != nil {
			it.outcome = outcomeLeft
		}
		return true
	}
	var sent []*item
	var messages []message.Message
	for _, it := range items {
		it.attempt = 1
		if it.failure != nil {
			it.attempt = int(it.failure.attempts) + 1
		}
		if behind(it) {
			continue
		}
		m, err := it.open(r.encrypter)
		if err != nil {
			undelivered(it, outcomeFailed, err)
			continue
		}
		m.Delivery, it.sent = it.attempt, true
		it.message.Headers = m.Headers // for the observer
		sent, messages = append(sent, it), append(messages, m)
	}
	if len(sent) == 0 {
		return false, nil
	}
	errs, unanswered := r.publish(ctx, messages)
	u.unanswered = unanswered
	for i, it := range sent {
		var err error
		if errs != nil {
			err = errs[i]
		}
		switch {
		case behind(it): // also if it was delivered: an in-order consumer refuses the one before it afterwards
		case err == nil:
			it.outcome, some = outcomeDelivered, true
		case IsUnavailable(err):
			down = err
			undelivered(it, outcomeLeft, err)
		default:
			undelivered(it, outcomeFailed, err)
		}
	}
	return some, down
}

// publish calls the publisher, and returns an error for each message, or nil if all are delivered. unanswered is that of answer.
func (r *Relay) publish(ctx context.Context, messages []message.Message) (errs []error, unanswered <-chan []error) {
	all := func(err error) []error {
		errs := make([]error, len(messages))
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	tellBreaker := func(retry.Health) {}
	if r.cfg.Breaker != nil {
		tell, err := r.cfg.Breaker.Allow()
		if err != nil {
			return all(Unavailable(err)), nil
		}
		tellBreaker = tell
	}
	errs, unanswered = r.answer(ctx, messages, all)
	endIfClosed(r.end, errs)
	health := retry.HealthGood
	for _, err := range errs {
		if IsUnavailable(err) || errors.Is(err, errSilent) {
			health = retry.HealthBad
		}
	}
	tellBreaker(health)
	return errs, unanswered
}

// answer calls Publish and waits for its answer, but not for ever: a Publish that does not return keeps one of its topic's calls, and no
// messages. Then unanswered tells when it has returned.
func (r *Relay) answer(ended context.Context, messages []message.Message, all func(error) []error) (errs []error, unanswered <-chan []error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ended), r.cfg.Timeout) // when Run ends, deliveries on their way have their time
	defer cancel()
	answered := make(chan []error, 1)
	n := len(messages) // they are the publisher's now
	go func() {
		errs := all(errors.New("Publish has ended its goroutine (runtime.Goexit). Try: return an error"))
		ctx, end := r.traced(ctx, messages)
		defer func() {
			if p := recover(); p != nil {
				errs = all(fmt.Errorf("Publish panics: %v", p))
			}
			end(errs)
			answered <- errs
		}()
		told := r.publisher.Publish(ctx, messages)
		switch {
		case told == nil:
			errs = nil
		case len(told) != n:
			errs = all(fmt.Errorf("Publish has returned %d errors for %d messages. Try: one for each, or nil", len(told), n))
		default:
			for i, err := range told {
				errs[i] = readable(err)
			}
		}
	}()
	select {
	case errs := <-answered:
		return errs, nil
	case <-ctx.Done():
	}
	late := time.NewTimer(min(r.cfg.Timeout, 5*time.Second))
	defer late.Stop()
	select {
	case errs := <-answered: // an answer that is late counts
		return errs, nil
	case <-late.C:
	}
	return all(errSilent), answered
}

// readable returns err, or in its place an error that says that its methods panic: those of a nil pointer do, and nothing behind
// Publish expects that.
func readable(err error) (same error) {
	if err == nil {
		return nil
	}
	defer func() {
		if p := recover(); p != nil {
			same = fmt.Errorf("Publish has returned an error of type %T, whose methods panic: %v. Try: nil itself for a message that was delivered, not a nil pointer", err, p)
		}
	}()
	_ = err.Error()
	_ = errors.Is(err, errSilent) // walks through all that err wraps
	_ = IsUnavailable(err)
	_, _ = retry.Classify(err)
	return err
}

var errSilent = errors.New("Publish has not returned after its time was over. Try: a Publisher that returns when its context ends")

// What a destination asks for is bounded: it can be a date that is years away.
const (
	maxAfter      = time.Hour      // for all messages of a topic, while its destination is down
	maxAfterOfKey = 24 * time.Hour // for a message, and those of its key behind it
)

// wait is how long to wait for a destination that was not available several times in a row, with err the last time.
func (r *Relay) wait(times int, err error) time.Duration {
	_, after := retry.Classify(err)
	p := retry.Policy{ // waiting is no attempt: nothing gives it up, and it costs nothing
		Attempts: math.MaxInt, Base: r.cfg.Policy.Base, Cap: r.cfg.Policy.Cap, Total: -1, Budget: &retry.Budget{Burst: -1},
	}
	wait, _ := p.Next(retry.FailedAttempt{Attempt: times, Class: retry.ClassTransient, After: min(after, maxAfter), Random: rand.Float64()})
	return max(wait, minIdle)
}

// longest is the longest pause between two attempts.
func (r *Relay) longest() time.Duration {
	if r.cfg.Policy.Cap > 0 {
		return r.cfg.Policy.Cap
	}
	return 2 * time.Second
}

// next decides what follows a failure: another attempt when wait is over, or none.
func (r *Relay) next(f *failure, err error) (wait time.Duration, stopped bool) {
	class, after := retry.Classify(err)
	if retry.IsPermanent(err) {
		class = retry.ClassFinal
	}
	wait, stop := r.cfg.Policy.Next(retry.FailedAttempt{
		Attempt: int(f.attempts), Class: class, After: min(after, maxAfterOfKey), Elapsed: time.Since(f.since), Random: rand.Float64(),
	})
	if stop == retry.ReasonOverBudget { // which says nothing about the message
		return r.longest(), false
	}
	return wait, stop != ""
}
