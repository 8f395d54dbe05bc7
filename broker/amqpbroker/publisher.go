package amqpbroker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/oncelib/once/internal/keyed"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/message/cloudevent"
	"github.com/oncelib/once/outbox"
)

const (
	onTheWay  = 512 // the largest number of messages without a confirmation
	maxName   = 255 // the largest size of a topic or of the name of a header in AMQP, in bytes
	mediaType = "content-type"

	silence = 6 // after this number of heartbeats, a missing confirmation is an error
)

// Publisher returns a publisher that sends messages to an exchange, with the topic as routing key. If exchange is "", the default exchange is used,
// and the topic is the name of the queue.
func Publisher(conn *Conn, exchange string) outbox.Publisher {
	return &publisher{conn: conn, exchange: exchange, sender: keyed.NewSender(onTheWay), turn: make(chan struct{}, 1)}
}

type publisher struct {
	conn     *Conn
	exchange string
	sender   *keyed.Sender
	turn     chan struct{} // the goroutine that holds it may open a link

	link *link
}

// link is a channel with confirmations. If no queue takes a message, the server returns the message before it confirms it.
type link struct {
	*amqp.Channel

	returns chan amqp.Return // has room for all messages on the way, because the library drops a return that it cannot deliver
	closed  chan *amqp.Error

	mu       sync.Mutex
	users    int   // the number of messages that wait for an answer of the server
	retired  bool  // the link accepts no further message
	cause    error // why the server has closed the channel
	sent     uint64
	returned map[string]string // the reasons of returned messages, by their numbers
}

// Publish implements [outbox.Publisher].
func (p *publisher) Publish(ctx context.Context, messages []message.Message) []error {
	return p.sender.Publish(ctx, messages, func(m *message.Message) error {
		err := p.send(ctx, m)
		if err != nil && p.conn.isClosed() {
			return outbox.Closed(fmt.Errorf("amqpbroker: %s: %w", p.conn.server, errClosed))
		}
		return err
	})
}

func (p *publisher) send(ctx context.Context, m *message.Message) error {
	publishing, err := newPublishing(m)
	if err != nil {
		return err
	}
	l, err := p.open(ctx)
	if err != nil {
		return outbox.Unavailable(err)
	}
	defer l.leave()
	// The number identifies the message in the returns of the server.
	number := l.number()
	publishing.CorrelationId = number
	confirmation, err := l.PublishWithDeferredConfirm(p.exchange, m.Topic, true, false, publishing)
	if err != nil {
		return p.lost(l, m, err)
	}
	// A sent message cannot be taken back. It keeps its place until it is confirmed, until the connection is lost, or until the link
	// is given up. So every return finds room.
	confirmed, err := p.wait(confirmation)
	switch {
	case err != nil:
		// Other messages on this channel may still be confirmed, but new messages need another channel.
		l.retire()
		return outbox.Unavailable(fmt.Errorf("amqpbroker: the server has not confirmed a message for %s: %w. Try: rabbitmq-queues quorum_status, which shows whether the queue has a leader; "+
			"rabbitmqctl list_connections name state, which shows whether publishers are blocked", p.place(m), err))
	case confirmed:
		// The server confirms a returned message, too, so the confirmation is no proof of delivery.
		if why, returned := l.isReturned(number); returned {
			return outbox.Unavailable(fmt.Errorf("amqpbroker: the server has returned a message, because no queue receives messages of %s (%s). Try: %s", p.place(m), why, p.advice()))
		}
		return nil
	// The server has answered nothing, because the channel was closed.
	case l.IsClosed():
		return p.lost(l, m, amqp.ErrClosed)
	}
	return outbox.Unavailable(fmt.Errorf("amqpbroker: the server has refused a message for %s, because a queue is full or has no leader. Try: start consumers of the queue, or set a larger x-max-length", p.place(m)))
}

// wait waits for the confirmation, with a time limit, because a quorum queue without a leader never answers. It ignores the context
// of the caller, because a sent message cannot be taken back.
func (p *publisher) wait(confirmation *amqp.DeferredConfirmation) (confirmed bool, err error) {
	longest := silence * p.conn.config.Heartbeat
	ctx, cancel := context.WithTimeoutCause(context.Background(), longest, fmt.Errorf("the server has sent nothing for %v", longest))
	defer cancel()
	confirmed, err = confirmation.WaitContext(ctx)
	if err != nil {
		err = context.Cause(ctx)
	}
	return confirmed, err
}

func (p *publisher) place(m *message.Message) string {
	if p.exchange == "" {
		return "the queue " + m.Topic
	}
	return fmt.Sprintf("the routing key %s of exchange %s", m.Topic, p.exchange)
}

func (p *publisher) advice() string {
	if p.exchange == "" {
		return "declare a durable queue of this name, with amqpbroker.Declare for example"
	}
	return "bind a durable queue to the exchange, with amqpbroker.Declare for example"
}

// open returns the open link, or opens a new one.
func (p *publisher) open(ctx context.Context) (*link, error) {
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return nil, fmt.Errorf("amqpbroker: wait for a channel: %w", context.Cause(ctx))
	}
	if p.link != nil && !p.link.IsClosed() && p.link.enter() {
		return p.link, nil
	}
	ch, err := p.conn.channel(ctx)
	if err != nil {
		return nil, err
	}
	l := &link{Channel: ch, returns: make(chan amqp.Return, onTheWay), closed: make(chan *amqp.Error, 1), returned: map[string]string{}, users: 1}
	ch.NotifyReturn(l.returns)
	ch.NotifyClose(l.closed)
	if err := p.conn.bounded(ctx, func() error { return ch.Confirm(false) }); err != nil {
		p.conn.finish(ctx, ch.Close)
		return nil, fmt.Errorf("amqpbroker: turn on publisher confirms at %s: %w", p.conn.server, err)
	}
	p.link = l
	return l, nil
}

// retire makes a link refuse further messages. Messages that were sent over it are still confirmed.
func (l *link) retire() {
	l.mu.Lock()
	l.retired = true
	l.mu.Unlock()
}

// leave is called when a message does not need the link any more. The last message that leaves a retired link closes it.
func (l *link) leave() {
	l.mu.Lock()
	l.users--
	unused := l.retired && l.users == 0
	l.mu.Unlock()
	if unused {
		go func() { _ = l.Close() }() // in a goroutine, because the server may wait for the queue that does not answer
	}
}

// enter reports whether another message may use the link.
func (l *link) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.retired {
		l.users++
	}
	return !l.retired
}

// number returns a number that no other message of the link has. It identifies a returned message.
func (l *link) number() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent++
	return strconv.FormatUint(l.sent, 10)
}

// isReturned reports whether a confirmed message was returned before, and why.
func (l *link) isReturned(number string) (why string, returned bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// The return comes before the confirmation, so it is in the channel already.
	for waiting := true; waiting; {
		select {
		case r, open := <-l.returns:
			if waiting = open; open {
				l.returned[r.CorrelationId] = r.ReplyText
			}
		default:
			waiting = false
		}
	}
	why, returned = l.returned[number]
	delete(l.returned, number)
	return why, returned
}

// why returns the reason why the server has closed the channel, or nil.
func (l *link) why() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if told, ok := <-l.closed; ok { // the library closes the Go channel after the reason
		l.cause = told
	}
	return l.cause
}

// lost returns the error of a message that was sent and not confirmed.
func (p *publisher) lost(l *link, m *message.Message, err error) error {
	if l.IsClosed() {
		if why := l.why(); why != nil {
			err = why
		}
	}
	told := fmt.Errorf("amqpbroker: %s at %s: %w", p.place(m), p.conn.server, err)
	var refusal *amqp.Error
	switch {
	case isGone(err):
		told = fmt.Errorf("%w. Try: declare the exchange, with amqpbroker.Declare for example", told)
	case errors.As(err, &refusal) && refusal.Code == amqp.PreconditionFailed && isOfSize(refusal.Reason, len(m.Payload)):
		return permanent("%w. Try: set a larger max_message_size on the server, or send a smaller message", told)
	}
	return outbox.Unavailable(told)
}

// isOfSize reports whether the server says that a message of this size is too large. The server closes the channel with this error,
// so other messages get it, too.
func isOfSize(reason string, size int) bool {
	var said int
	const words = "PRECONDITION_FAILED - message size %d"
	_, err := fmt.Sscanf(reason, words, &said)
	return err == nil && said == size
}

// newPublishing returns a CloudEvent in binary mode. The server stores it on disk.
func newPublishing(m *message.Message) (amqp.Publishing, error) {
	if m.Topic == "" || len(m.Topic) > maxName {
		return amqp.Publishing{}, permanent("amqpbroker: the topic %.40q cannot be a routing key of RabbitMQ. Try: a topic of 1 to %d bytes", m.Topic, maxName)
	}
	publishing := amqp.Publishing{
		DeliveryMode: amqp.Persistent, MessageId: m.ID, Type: m.Type, Timestamp: m.CreatedAt, Body: m.Payload, Headers: amqp.Table{},
	}
	for name, value := range cloudevent.Headers(m, cloudevent.AMQP) {
		switch {
		case len(name) > maxName:
			return publishing, permanent("amqpbroker: the name of the header %.40q is longer than %d bytes. Try: a shorter one", name, maxName)
		case name == mediaType && len(value) <= maxName:
			publishing.ContentType = value
		default:
			publishing.Headers[name] = value
		}
	}
	return publishing, nil
}
