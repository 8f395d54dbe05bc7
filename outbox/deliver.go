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

// start publishes the ready messages of a unit in a goroutine, and then passes the unit to its finisher.
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
		if ctx.Err() == nil { // after the end of Run, messages stay for the next one
			r.deliver(ctx, u, ready)
		}
		// A Publish that does not return keeps its call. Otherwise each retry of the topic would start one more.
		if u.unanswered == nil {
			r.board.release(u)
		} else {
			board := r.board // the next Run makes another board
			go func() {
				<-u.unanswered
				board.release(u)
			}()
		}
		r.finisherOf(u).add(u)
	})
}

// deliver publishes items, and notes whether the destination of their topic is up.
func (r *Relay) deliver(ctx context.Context, u *unit, items []*item) {
	some, down := r.publishItems(ctx, u, items)
	probe := 1
	if down == nil && !some {
		if down = outage(items); down != nil {
			probe = r.board.nextProbe(u.topic) // one more failure would prove nothing
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

// outage returns an error if many messages were tried for the first time and all of them have failed. Then
// their destination is probably not available, although no error says so, and the items count as not tried.
func outage(items []*item) error {
	failed := 0
	var last error
	for _, it := range items {
		switch {
		// These messages have failed for a reason of their own: they have failed before, cannot be decrypted,
		// or were refused for good.
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
	return Unavailable(fmt.Errorf("the publisher has delivered none of %d messages, so the relay waits before it tries the topic again; the last error: %w", failed, last))
}

// publishItems publishes messages of one topic, and sets the outcome of each item. down is an error if the destination was not available; some
// reports that it was available for some of the items.
func (r *Relay) publishItems(ctx context.Context, u *unit, items []*item) (some bool, down error) {
	waiting := map[keyOf]bool{} // keys with an undelivered message: their later messages wait
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
		case behind(it): // even if it was delivered: an in-order consumer would later refuse the message before it
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
	// Errors of single messages say nothing against the destination, so only these two kinds count.
	health := retry.HealthGood
	for _, err := range errs {
		if IsUnavailable(err) || errors.Is(err, errSilent) {
			health = retry.HealthBad
		}
	}
	tellBreaker(health)
	return errs, unanswered
}

// answer calls Publish and waits for its answer, with a bound: a Publish that does not return keeps one of its topic's calls, but no messages. Then
// unanswered receives the late answer.
func (r *Relay) answer(ended context.Context, messages []message.Message, all func(error) []error) (errs []error, unanswered <-chan []error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ended), r.cfg.Timeout) // when Run ends, running deliveries may use their time
	defer cancel()
	answered := make(chan []error, 1)
	n := len(messages) // Publish owns the slice now
	go func() {
		errs := all(errors.New("Publish has called runtime.Goexit. Try: return an error instead"))
		ctx, end := r.traced(ctx, messages)
		defer func() {
			if p := recover(); p != nil {
				errs = all(fmt.Errorf("Publish panicked: %v", p))
			}
			end(errs)
			answered <- errs
		}()
		told := r.publisher.Publish(ctx, messages)
		switch {
		case told == nil:
			errs = nil
		case len(told) != n:
			errs = all(fmt.Errorf("Publish has returned %d errors for %d messages. Try: return one error for each message, or nil if all messages were delivered", len(told), n))
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
	// A publisher needs a moment to return after its context has ended.
	late := time.NewTimer(min(r.cfg.Timeout, 5*time.Second))
	defer late.Stop()
	select {
	case errs := <-answered: // a late answer counts
		return errs, nil
	case <-late.C:
	}
	return all(errSilent), answered
}

// readable returns err. If the methods of err panic, as those of a nil pointer do, it returns an error that says so, because no code behind Publish
// expects a panic.
func readable(err error) (same error) {
	if err == nil {
		return nil
	}
	defer func() {
		if p := recover(); p != nil {
			same = fmt.Errorf("Publish has returned an error of type %T, whose methods panic: %v. Try: return a plain nil for a delivered message, not a nil pointer", err, p)
		}
	}()
	_ = err.Error()
	_ = errors.Is(err, errSilent) // walks through all errors that err wraps
	_ = IsUnavailable(err)
	_, _ = retry.Classify(err)
	return err
}

var errSilent = errors.New("Publish has not returned after its context has ended. Try: a Publisher that returns when its context ends")

// The pause that a destination asks for is bounded, because it can be a date that is years away.
const (
	maxAfter      = time.Hour      // for all messages of a topic, while its destination is down
	maxAfterOfKey = 24 * time.Hour // for a message, and the later messages of its key
)

// wait is the pause after a destination was not available several times in a row. err is the last error.
func (r *Relay) wait(times int, err error) time.Duration {
	_, after := retry.Classify(err)
	p := retry.Policy{ // a wait is not an attempt: it has no limit, and takes nothing from a budget
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

// next decides what follows a failure: another attempt after wait, or no attempt.
func (r *Relay) next(f *failure, err error) (wait time.Duration, stopped bool) {
	class, after := retry.Classify(err)
	if retry.IsPermanent(err) {
		class = retry.ClassFinal
	}
	wait, stop := r.cfg.Policy.Next(retry.FailedAttempt{
		Attempt: int(f.attempts), Class: class, After: min(after, maxAfterOfKey), Elapsed: time.Since(f.since), Random: rand.Float64(),
	})
	if stop == retry.ReasonOverBudget { // an empty budget says nothing about the message
		return r.longest(), false
	}
	return wait, stop != ""
}
