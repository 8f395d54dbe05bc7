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
		// While a Publish has not returned, it keeps its call. Otherwise each retry of the topic would start
		// one more call.
		if u.unanswered == nil {
			r.board.release(u)
		} else {
			board := r.board // the next Run makes another board
			// The wait has a goroutine of its own, because the outcomes of the unit are written now.
			go func() {
				<-u.unanswered
				board.release(u)
			}()
		}
		r.finisherOf(u).add(u)
	})
}

// deliver publishes items, and records whether the destination of their topic is available.
func (r *Relay) deliver(ctx context.Context, u *unit, items []*item) {
	some, down := r.publishItems(ctx, u, items)
	probe := 1
	if down == nil && !some {
		if down = outage(items); down != nil {
			probe = r.board.nextProbe(u.topic) // a probe of one message would prove nothing here
		}
	}
	// A relay that reaches no destination for long releases its parts: see yield.
	r.board.noteTry(down == nil || some)
	switch {
	case down == nil:
		r.board.isUp(u.topic, some)
		return
	case some:
		// A part of the batch was delivered, so the destination works. A short pause is enough.
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

// outage returns an error if many messages were tried for the first time and all of them have failed. Their
// destination is then probably not available, although no error says so, and outage sets the items back to not
// tried.
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

// publishItems publishes messages of one topic, and sets the outcome of each item. The result down is an error
// if the destination was not available. The result some reports that the destination was available for some of
// the items.
func (r *Relay) publishItems(ctx context.Context, u *unit, items []*item) (some bool, down error) {
	waiting := map[keyOf]bool{} // keys with an undelivered message: the later messages of the key wait
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
		// The message before it is tried again together with it, so no page has to find it.
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
		it.message.Headers = m.Headers // the observer sees the decrypted headers
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
		case behind(it): // even if it was delivered: an in-order consumer would later refuse the earlier message of the key
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

// publish calls the publisher. It returns one error for each message, or nil if all messages are delivered. The
// result unanswered is the one of answer.
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
			// The open breaker says that the destination is down, so no message counts as tried.
			return all(Unavailable(err)), nil
		}
		tellBreaker = tell
	}
	errs, unanswered = r.answer(ctx, messages, all)
	endIfClosed(r.end, errs)
	// An error of one message says nothing about the destination, so only these two kinds of errors count.
	health := retry.HealthGood
	for _, err := range errs {
		if IsUnavailable(err) || errors.Is(err, errSilent) {
			health = retry.HealthBad
		}
	}
	// The breaker must learn the outcome of each call that it has allowed.
	tellBreaker(health)
	return errs, unanswered
}

// answer calls Publish and waits for the answer until the timeout. A Publish that does not return keeps one of
// the calls of its topic, but no messages. In this case unanswered receives the late answer.
func (r *Relay) answer(ended context.Context, messages []message.Message, all func(error) []error) (errs []error, unanswered <-chan []error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ended), r.cfg.Timeout) // deliveries that run when Run ends may use the rest of their time
	defer cancel()
	answered := make(chan []error, 1)
	n := len(messages) // the slice belongs to Publish from now on
	// In a goroutine, because Publish may ignore its context and never return.
	go func() {
		// runtime.Goexit runs the deferred function without a panic. Then this error remains.
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
		// A nil slice says that all messages were confirmed.
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
	case errs := <-answered: // a late answer is still an answer: messages may be delivered
		return errs, nil
	case <-late.C:
	}
	return all(errSilent), answered
}

// readable returns err if its methods work. If a method of err panics, as a method of a nil pointer does,
// readable returns an error that says so. No code behind Publish expects a panic.
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

// A destination can ask for a pause with a date that is years away, so these constants limit the pause.
const (
	maxAfter      = time.Hour      // for all messages of a topic whose destination is down
	maxAfterOfKey = 24 * time.Hour // for one message and the later messages of its key
)

// wait returns the pause before the next probe, after the destination was not available several times in a row.
// The parameter err is the last error.
func (r *Relay) wait(times int, err error) time.Duration {
	_, after := retry.Classify(err)
	p := retry.Policy{ // a wait is not an attempt: it has no limit, and takes nothing from a budget
		Attempts: math.MaxInt, Base: r.cfg.Policy.Base, Cap: r.cfg.Policy.Cap, Total: -1, Budget: &retry.Budget{Burst: -1},
	}
	wait, _ := p.Next(retry.FailedAttempt{Attempt: times, Class: retry.ClassTransient, After: min(after, maxAfter), Random: rand.Float64()})
	return max(wait, minIdle)
}

// longest returns the longest pause between two attempts.
func (r *Relay) longest() time.Duration {
	if r.cfg.Policy.Cap > 0 {
		return r.cfg.Policy.Cap
	}
	return 2 * time.Second
}

// next decides about a failed message: another attempt after wait, or no further attempt.
func (r *Relay) next(f *failure, err error) (wait time.Duration, stopped bool) {
	class, after := retry.Classify(err)
	if retry.IsPermanent(err) {
		class = retry.ClassFinal
	}
	wait, stop := r.cfg.Policy.Next(retry.FailedAttempt{
		Attempt: int(f.attempts), Class: class, After: min(after, maxAfterOfKey), Elapsed: time.Since(f.since), Random: rand.Float64(),
	})
	if stop == retry.ReasonOverBudget { // an empty budget says nothing about the message, so the message is not stopped
		return r.longest(), false
	}
	return wait, stop != ""
}
