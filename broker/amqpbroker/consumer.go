package amqpbroker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/consume"
	"github.com/oncelib/once/message"
)

// ConsumerConfig configures [Consume]. Queue is required.
type ConsumerConfig struct {
	Queue string // the name of the queue

	Concurrency int // the largest number of concurrent transactions. Default: 8
	Batch       int // the largest number of messages in one transaction. Default: 64

	// Prefetch is the largest number of messages that Consume works on at the same time in one process. In addition, up to Prefetch messages
	// may wait in memory: messages that have failed, and later messages with the keys of failed messages. So Consume asks the server for twice
	// Prefetch messages, but for at most 65,535. Consume holds up to twice Prefetch messages in memory, whatever the size of the messages is.
	// Default: 512.
	Prefetch int

	Capacity consume.Capacity // a further limit of concurrent transactions, such as a capacity of package limit/adaptive
	Drain    time.Duration    // how long handlers may continue after ctx has ended. Default: 30 s

	// SlowAcquire is the longest time that a transaction should wait for a connection of the database pool. After a longer wait, Consume reduces the
	// number of concurrent transactions by a quarter, down to 1. When waits are short, Consume increases the number of concurrent transactions
	// again, up to Concurrency. Default: 100 ms. If SlowAcquire is negative, long waits do not reduce the number of concurrent transactions.
	SlowAcquire time.Duration

	Decode func(d amqp.Delivery) (message.Message, error) // makes a message of a delivery; default: [Decode]
	Log    *slog.Logger                                   // gets warnings and errors; default: slog.Default()
}

// longestHeld is how long this process holds a message that waits for its next attempt. The server closes the channel of a consumer
// that has not acknowledged a message for 30 minutes (consumer_timeout).
const longestHeld = 10 * time.Minute

// Consume passes the messages of a queue to an inbox until ctx ends. The inbox is the parameter in, and applies each message with fn. Any number of
// processes can consume the same queue. Each message is acknowledged after the commit that applies it. A failed message is tried again by the same
// process, after the pause of inbox.Config.Policy. Consume also calls in.Run.
//
// Consume opens its own connection with the settings of conn. If the connection of Consume is lost, Consume drops its copies of the
// unacknowledged messages and connects again. After the new connection, the server delivers the unacknowledged messages again.
//
// When ctx ends, Consume takes no more messages. Messages that no handler has begun go back to the queue. After ctx has ended, Consume waits
// for the running handlers, and then returns nil. If handlers still run after ConsumerConfig.Drain, Consume cancels their contexts. Consume
// returns an error if the program has closed conn, or if in.Run returns an error.
func Consume[TX any](ctx context.Context, conn *Conn, in *inbox.Inbox[TX], fn inbox.Handler[TX], cfg ConsumerConfig) error {
	c, err := newConsumer(conn, consume.Into(in, fn), cfg)
	if err != nil {
		return err
	}
	return c.run(ctx)
}

type consumer struct {
	given *Conn
	conn  *Conn // a separate connection: a queue that does not answer must not close the connection of publishers, and blocked publishers must not block acknowledgements
	cfg   ConsumerConfig
	pool  *consume.Pool
	log   *slog.Logger
	last  *amqp.Channel // the last channel; nil if no channel was opened
	fails bool          // the log says that the consumer gets no messages
}

func newConsumer(conn *Conn, sink consume.Sink, cfg ConsumerConfig) (*consumer, error) {
	if cfg.Queue == "" {
		return nil, errors.New("amqpbroker: ConsumerConfig.Queue is empty. Try: the name of the queue to read, such as Queue: \"refunds\"")
	}
	if cfg.Decode == nil {
		cfg.Decode = Decode
	}
	pool, err := consume.New(sink, consume.Config{
		Concurrency: cfg.Concurrency, Batch: cfg.Batch, Prefetch: cfg.Prefetch, Hold: longestHeld,
		Capacity: cfg.Capacity, Drain: cfg.Drain, SlowAcquire: cfg.SlowAcquire, Log: cfg.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("amqpbroker: %w", err)
	}
	own, err := Dial(conn.url, conn.config)
	if err != nil {
		return nil, err
	}
	return &consumer{given: conn, conn: own, cfg: cfg, pool: pool, log: pool.Config().Log}, nil
}

func (c *consumer) run(ctx context.Context) error {
	defer func() { _ = c.conn.Close() }()
	defer context.AfterFunc(c.given.over, func() { _ = c.conn.Close() })()
	err := c.pool.Run(ctx, c.takeAll)
	if c.last != nil {
		c.conn.finish(ctx, c.last.Close) // the server delivers the unacknowledged messages to other consumers
	}
	return err
}

// takeAll fills the pool until ctx ends. If the server cannot be reached, or has no such queue, takeAll tries again.
func (c *consumer) takeAll(ctx context.Context) error {
	for failures := 0; ctx.Err() == nil; {
		began, err := c.take(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // ctx has ended
		}
		// The connection of the caller was closed for good, so no further attempt can succeed.
		if c.conn.isClosed() {
			return fmt.Errorf("amqpbroker: %s: %w", c.conn.server, errClosed)
		}
		// The server has delivered before, so the pauses begin again with the shortest.
		if began {
			failures = 0
		}
		failures++
		try := "check that the RabbitMQ server is running and reachable"
		if isGone(err) {
			try = "declare the queue, with amqpbroker.Declare for example"
		}
		c.fails = true
		c.log.Warn("once: amqpbroker: the consumer gets no messages from the server at the moment, and tries again. Try: "+try, "queue", c.cfg.Queue, "error", err)
		consume.Pause(ctx, failures)
	}
	return nil
}

// take puts the messages of one channel into the pool, until the channel or ctx ends. began reports whether the server has begun
// to deliver.
func (c *consumer) take(ctx context.Context) (began bool, err error) {
	ch, err := c.conn.channel(ctx)
	if err != nil {
		return false, err
	}
	c.last = ch
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	cancelled := ch.NotifyCancel(make(chan string, 1))
	const tag = "once"
	cancel := func() error { return ch.Cancel(tag, false) } // the messages that this process releases must go to other processes
	var deliveries <-chan amqp.Delivery
	err = c.conn.bounded(ctx, func() (err error) {
		// The limit of AMQP has 16 bits. Twice Prefetch leaves room for messages that have failed.
		if err = ch.Qos(min(2*c.pool.Config().Prefetch, math.MaxUint16), 0, false); err == nil {
			deliveries, err = ch.Consume(c.cfg.Queue, tag, false, false, false, false, nil)
		}
		return err
	})
	if err != nil {
		c.conn.finish(ctx, ch.Close)
		return false, fmt.Errorf("amqpbroker: consume queue %s: %w", c.cfg.Queue, err)
	}
	if c.fails {
		c.fails = false
		c.log.Info("once: amqpbroker: the consumer gets messages from the server again", "queue", c.cfg.Queue)
	}
	for {
		// While the pool is full, nothing is read. The messages wait in the library, which never has more than Qos allows.
		if _, err := c.pool.Room(ctx, 1); err != nil {
			c.conn.finish(ctx, cancel)
			return true, nil //nolint:nilerr // ctx has ended
		}
		select {
		case d, open := <-deliveries:
			if open {
				c.pool.Add(c.delivery(ch, d))
				continue
			}
			c.conn.finish(ctx, ch.Close) // the channel is still open if the queue was deleted
			c.forget(ch)
			select {
			case why := <-closed:
				if why != nil {
					return true, fmt.Errorf("amqpbroker: the channel was closed: %w", why)
				}
			case <-cancelled:
			}
			return true, fmt.Errorf("amqpbroker: consume queue %s: the server has stopped the delivery, because the connection was closed or the queue was deleted", c.cfg.Queue)
		case <-ctx.Done():
			c.conn.finish(ctx, cancel)
			return true, nil
		}
	}
}

// forget removes the messages of a closed channel from the pool, because the server delivers them again.
func (c *consumer) forget(ch *amqp.Channel) {
	dropping, cancel := context.WithCancel(context.Background())
	cancel() // the handlers may continue: their acknowledgements have no effect
	_ = c.pool.Drop(dropping, func(d *consume.Delivery) bool {
		r, ok := d.Receipt.(receipt)
		return ok && r.channel == ch
	})
}

// delivery decodes a message of the queue.
func (c *consumer) delivery(ch *amqp.Channel, from amqp.Delivery) *consume.Delivery {
	d := &consume.Delivery{Receipt: receipt{ch, from.DeliveryTag}}
	d.Decode(message.Message{Topic: from.RoutingKey, Payload: from.Body}, func() (message.Message, error) { return c.cfg.Decode(from) })
	d.Message.Delivery = deliveryOf(from)
	if d.Malformed != nil && d.Message.ID == "" { // a queue has no positions, so the content identifies the message
		d.Message.ID, d.Message.Source = c.cfg.Queue+"/"+digest(from), "amqp"
		if len(d.Message.ID) > message.MaxText {
			d.Message.ID = digest(from)
		}
	}
	return d
}

// digest returns an ID that is made of those parts of a message that are the same in every delivery.
func digest(d amqp.Delivery) string {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%q %q %q %q ", d.Exchange, d.RoutingKey, d.MessageId, d.ContentType)
	for _, name := range slices.Sorted(maps.Keys(d.Headers)) {
		// Headers of the server change with each delivery.
		if !isOfServer(name) {
			_, _ = fmt.Fprintf(h, "%q %q ", name, fmt.Sprint(d.Headers[name]))
		}
	}
	h.Write(d.Body)
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// receipt answers the server over the channel that has delivered the message, because delivery numbers belong to a channel. If an
// answer is lost, the message is delivered again, and the inbox detects this.
type receipt struct {
	channel *amqp.Channel
	tag     uint64
}

// Ack implements [consume.Receipt].
func (r receipt) Ack() { _ = r.channel.Ack(r.tag, false) }

// Again implements [consume.Receipt]. A queue cannot delay a delivery. So Again returns false for a pause, and the pool keeps the message, but not
// longer than longestHeld.
func (r receipt) Again(after time.Duration) bool {
	if after > 0 {
		return false
	}
	_ = r.channel.Nack(r.tag, false, true)
	return true
}

// Apart implements [consume.Receipt]. It does nothing, because the setting Qos of the channel limits the number of messages.
func (r receipt) Apart(int) {}

// Extend implements [consume.Receipt]. It does nothing, because RabbitMQ requires no sign of life for a message.
func (r receipt) Extend() {}
