// Package keyed sends the messages of an outbox individually, and many at the same time. All publishers share it.
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

// NewSender returns a sender that has at most limit messages on the way at the same time, over all calls of Publish.
func NewSender(limit int) *Sender { return &Sender{make(chan struct{}, limit)} }

// Publish implements the contract of [outbox.Publisher] for a destination that accepts single messages.
//
// Publish calls send for many messages at the same time, in their order, but never for two messages of one topic and key. It
// sends the next message of a key after the destination has confirmed the previous one. After a message has failed, the
// later messages of its topic and key are not sent. After an error of [outbox.Unavailable], no further message is sent.
//
// send returns the answer of the destination. If ctx has ended, Publish does not wait for this answer. A send that still runs
// keeps its slot of the sender.
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

// publication is the state of one call of Publish.
type publication struct {
	messages []message.Message
	errs     []error
	failed   bool  // one of errs is set
	stop     error // an Unavailable error: the destination cannot be reached

	next     []int // for each message: the next message of its topic and key, or 0
	ready    []int // the messages that can be sent, in order
	results  chan result
	onTheWay int
}

// result is the end of one delivery.
type result struct {
	message int
	err     error
}

type topicKey struct{ topic, key string }

var (
	errUnsent  = errors.New("the message was not sent")
	errUnknown = errors.New("the message was sent, and no confirmation has arrived")
)

// chain finds the first message of each topic and key, and the successor of each message.
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

// wanted reports whether the call still has to send a message or to wait for one.
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
	m := p.messages[i] // a copy, because the caller may change its slice after Publish has returned
	go func() {
		// The channel has room for a result from every slot, and this slot is kept until its result is stored. So the goroutine
		// never waits for a Publish that has returned.
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
		// The error of the earlier message is only quoted, so that Permanent does not apply to the later messages.
		why := fmt.Errorf("the message was not sent, because an earlier message of its key has failed: %v", r.err) //nolint:errorlint // as above
		for ; next != 0; next = p.next[next] {
			p.errs[next] = why
		}
	case next != 0:
		p.ready = append(p.ready, next)
	}
}

// end returns the errors, after all messages were answered or ctx has ended.
func (p *publication) end(ctx context.Context) []error {
	for {
		select {
		case r := <-p.results: // results that came at the same time as the end of ctx
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
