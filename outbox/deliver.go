package outbox

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/oncelib/once/retry"
)

// deliver publishes items, those of one topic together, and writes down what has become of them.
func (l *lane) deliver(ctx context.Context, items []*item) error {
	if len(items) == 0 {
		return nil
	}
	var names []string
	byTopic := map[string][]*item{}
	for _, it := range items {
		topic := it.message.Topic
		if byTopic[topic] == nil {
			names = append(names, topic)
		}
		byTopic[topic] = append(byTopic[topic], it)
	}
	for _, name := range names {
		if ctx.Err() != nil { // what is not on its way stays
			break
		}
		list := byTopic[name]
		allowed, release := l.relay.topics.take(name, len(list))
		for _, it := range list[allowed:] { // the sweep finds them
			it.outcome = outcomeWaits
			l.waits = true
		}
		if allowed == 0 {
			continue
		}
		some, down := l.publish(ctx, list[:allowed])
		release()
		if down == nil {
			l.relay.topics.up(name)
			continue
		}
		// Only this topic waits. Its messages are passed as those of a throttled one.
		l.waits = true
		l.relay.topics.down(name, some, func(times int) time.Duration { return l.relay.wait(times, down) })
		l.relay.tell(ctx, Event{Type: EventUnavailable, Message: Message{Topic: name}, Err: down})
	}
	return l.settle(ctx, items)
}

// publish publishes the messages of one topic, and says in items what has become of them. down is that the
// destination is not available, and some that it was there for some of them.
func (l *lane) publish(ctx context.Context, items []*item) (some bool, down error) {
	waiting := map[stream]bool{} // keys of which a message was not delivered: the next ones wait
	undelivered := func(it *item, of outcome, err error) {
		it.outcome, it.err = of, err
		if it.message.Key != "" {
			waiting[streamOf(&it.message)] = true
		}
	}
	waits := func(it *item) bool {
		if it.message.Key == "" || !waiting[streamOf(&it.message)] {
			return false
		}
		it.outcome = outcomeWaits
		return true
	}
	var sent []*item
	var messages []Message
	for _, it := range items {
		it.outcome, it.attempt = outcomeLeft, 1
		if f := it.part.failure(it.id); f != nil {
			it.attempt = int(f.attempts) + 1
		}
		if waits(it) {
			continue
		}
		m, err := it.open(l.relay.encrypter)
		if err != nil {
			undelivered(it, outcomeFailed, err)
			continue
		}
		m.Attempt = it.attempt
		sent, messages = append(sent, it), append(messages, m)
	}
	if len(sent) == 0 {
		return false, nil
	}
	errs := l.relay.publish(ctx, messages)
	for i, it := range sent {
		var err error
		if errs != nil {
			err = errs[i]
		}
		switch {
		case waits(it): // also if it was delivered: an in-order consumer refuses the one before it afterwards
		case err == nil:
			it.outcome, some = outcomeDelivered, true
		case IsUnavailable(err):
			down = err
			undelivered(it, outcomeWaits, err)
		default:
			undelivered(it, outcomeFailed, err)
		}
	}
	return some, down
}

// publish calls the publisher, and returns an error for each message, or nil if all are delivered.
func (r *Relay) publish(ctx context.Context, messages []Message) []error {
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
			return all(Unavailable(err))
		}
		tellBreaker = tell
	}
	errs := r.answer(ctx, messages, all)
	health := retry.HealthGood
	for _, err := range errs {
		if IsUnavailable(err) || errors.Is(err, errSilent) {
			health = retry.HealthBad
		}
	}
	tellBreaker(health)
	return errs
}

// answer calls Publish and waits for its answer, but not for ever.
func (r *Relay) answer(ended context.Context, messages []Message, all func(error) []error) []error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ended), r.cfg.Timeout) // when Run ends, deliveries on their way have their time
	defer cancel()
	answered := make(chan []error, 1)
	n := len(messages) // they are the publisher's now
	go func() {
		errs := all(errors.New("Publish has ended its goroutine (runtime.Goexit). Try: return an error"))
		defer func() {
			if p := recover(); p != nil {
				errs = all(fmt.Errorf("Publish panics: %v", p))
			}
			answered <- errs
		}()
		errs = r.publisher.Publish(ctx, messages)
		if errs != nil && len(errs) != n {
			errs = all(fmt.Errorf("Publish has returned %d errors for %d messages. Try: one for each, or nil", len(errs), n))
		}
	}()
	select {
	case errs := <-answered:
		return errs
	case <-ctx.Done():
	}
	late := time.NewTimer(min(r.cfg.Timeout, 5*time.Second))
	defer late.Stop()
	select {
	case errs := <-answered: // an answer that is late counts
		return errs
	case <-late.C:
	}
	silent := all(errSilent)
	select {
	case errs := <-answered:
		return errs
	case <-ended.Done():
	case r.silent <- struct{}{}: // others take its place, but there are never more of them than lanes
		go func() {
			<-answered
			<-r.silent
		}()
	}
	return silent
}

var errSilent = errors.New("Publish has not returned after its time was over. Try: a Publisher that returns when its context ends")

// maxAfter bounds what a destination that is down asks for.
const maxAfter = time.Hour

// wait is how long to wait for a destination that was not available several times in a row, with err the last time.
func (r *Relay) wait(times int, err error) time.Duration {
	_, after := retry.Classify(err)
	p := retry.Policy{ // waiting is no attempt: nothing gives it up, and it costs nothing
		Attempts: math.MaxInt, Base: r.cfg.Policy.Base, Cap: r.cfg.Policy.Cap, Total: -1, Budget: &retry.Budget{Burst: -1},
	}
	wait, _ := p.Next(retry.Failure{Attempt: times, Class: retry.ClassTransient, After: min(after, maxAfter), Random: rand.Float64()})
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
	if IsPermanent(err) {
		class = retry.ClassFinal
	}
	wait, stop := r.cfg.Policy.Next(retry.Failure{
		Attempt: int(f.attempts), Class: class, After: after, Elapsed: time.Since(f.since), Random: rand.Float64(),
	})
	if stop == retry.ReasonOverBudget { // which says nothing about the message
		return r.longest(), false
	}
	return wait, stop != ""
}
