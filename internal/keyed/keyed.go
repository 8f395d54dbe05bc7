// Package keyed sends messages of an outbox one by one, many at the same time: all publishers share it.
package keyed

import (
	"context"
	"errors"
	"fmt"

	"github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
)

// Sender sends messages to one destination.
type Sender struct{ slots chan struct{} }

// NewSender returns a sender of at most limit messages at once, over all calls of Publish.
func NewSender(limit int) *Sender { return &Sender{make(chan struct{}, limit)} }

// Publish keeps the contract of [outbox.Publisher] for a destination that takes single messages.
//
// It calls send for many messages at the same time, in their order, but never for two of one topic and key:
// the next one follows when the destination has confirmed the one before. After a message has failed,
// the later ones of its topic and key are not sent. After a message has failed with
// [outbox.Unavailable], no other is sent any more.
//
// send returns the answer of the destination. Publish does not wait for it when ctx has ended; a send that
// goes on keeps its slot of the sender.
func (s *Sender) Publish(ctx context.Context, messages []message.Message, send func(m *message.Message) error) []error {
	p := &publication{
		messages: messages,
		errs:     make([]error, len(messages)),
		results:  make(chan result, cap(s.slots)),
	}
	p.chain()
	for p.wanted(ctx) {
		slots := s.slots
		if len(p.ready) == 0 {
			slots = nil
		}
		select {
		case slots <- struct{}{}:
			p.start(send, slots)
		case r := <-p.results:
			p.finish(r)
		case <-ctx.Done():
		}
	}
	return p.end(ctx)
}

// publication is one call of Publish.
type publication struct {
	messages []message.Message
	errs     []error
	failed   bool  // one of errs is set
	stop     error // Unavailable: the destination cannot be reached

	next     []int // by message: the next one of its topic and key, 0 after the last one
	ready    []int // messages that can be sent, in order
	results  chan result
	onTheWay int
}

// result is how one delivery has ended.
type result struct {
	message int
	err     error
}

type topicKey struct{ topic, key string }

var (
	errUnsent  = errors.New("the message was not sent")
	errUnknown = errors.New("the message was sent, and no confirmation has arrived")
)

// chain finds the first message of each topic and key, and the message that follows each.
func (p *publication) chain() {
	p.next = make([]int, len(p.messages))
	last := make(map[topicKey]int)
	for i := range p.messages {
		p.errs[i] = errUnsent
		m := &p.messages[i]
		at := topicKey{m.Topic, m.Key}
		before, follows := last[at]
		if m.Key != "" {
			last[at] = i
		}
		if follows {
			p.next[before] = i
		} else {
			p.ready = append(p.ready, i)
		}
	}
}

// wanted reports whether there is something to send or to wait for.
func (p *publication) wanted(ctx context.Context) bool {
	if p.stop != nil {
		p.ready = nil
	}
	return ctx.Err() == nil && (p.onTheWay > 0 || len(p.ready) > 0)
}

func (p *publication) start(send func(*message.Message) error, slots chan struct{}) {
	i, results := p.ready[0], p.results
	p.ready = p.ready[1:]
	p.errs[i] = errUnknown
	p.onTheWay++
	m := p.messages[i] // a copy: the caller may use its slice again when Publish has returned
	go func() {
		// Results have room for all slots, and the slot is kept until this one is in: it never
		// waits for a Publish that has returned.
		results <- result{i, send(&m)}
		<-slots
	}()
}

func (p *publication) finish(r result) {
	p.onTheWay--
	p.errs[r.message] = r.err
	switch next := p.next[r.message]; {
	case outbox.IsUnavailable(r.err):
		p.stop, p.failed = r.err, true
	case r.err != nil:
		p.failed = true
		// The error of the earlier message is only quoted: it is not Permanent for the messages after it.
		why := fmt.Errorf("the message was not sent, because an earlier message of its key has failed: %v", r.err) //nolint:errorlint // as above
		for ; next != 0; next = p.next[next] {
			p.errs[next] = why
		}
	case next != 0:
		p.ready = append(p.ready, next)
	}
}

// end returns the errors, when nothing is on the way any more or ctx has ended.
func (p *publication) end(ctx context.Context) []error {
	for {
		select {
		case r := <-p.results: // they came at the same time as the end of ctx
			p.finish(r)
			continue
		default:
		}
		break
	}
	why := p.stop
	if why == nil {
		why = context.Cause(ctx)
	}
	for i, err := range p.errs {
		if err == errUnsent || err == errUnknown { //nolint:errorlint // these values mean "no result"
			p.errs[i] = outbox.Unavailable(fmt.Errorf("%w: %w", err, why))
			p.failed = true
		}
	}
	if !p.failed {
		return nil
	}
	return p.errs
}
