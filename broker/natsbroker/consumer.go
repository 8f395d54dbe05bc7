package natsbroker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/consume"
	"github.com/oncelib/once/message"
)

// ConsumerConfig configures [Consume]. Subjects or Stream is required.
type ConsumerConfig struct {
	Stream   string   // the stream; default: the stream that stores the first of Subjects
	Subjects []string // the subjects to consume; default: all subjects of the stream
	Durable  string   // the name of the durable consumer; default: inbox.Config.Consumer

	// AckWait is how long the server waits until a process acknowledges a message, or reports that it still works on the message. If the process does
	// not acknowledge the message and does not report that it still works on the message, because the process is dead or stopped, the server delivers
	// the message again. Default: 30 s.
	AckWait time.Duration

	// MaxAckPending limits the number of unacknowledged messages of all processes of the consumer together. MaxAckPending also counts messages that
	// wait for another delivery. While MaxAckPending messages are unacknowledged, the server delivers no other message. Default: 10,000.
	MaxAckPending int

	Concurrency   int              // the largest number of concurrent transactions. Default: 8
	Batch         int              // the largest number of messages in one transaction. Default: 64
	Prefetch      int              // the largest number of messages in memory, without waiting messages. In addition, up to Prefetch messages may wait in memory: messages that have failed, and later messages with the keys of failed messages. Default: 512
	PrefetchBytes int              // the largest size of the messages in memory together, in bytes, without waiting messages. In addition, waiting messages may use up to PrefetchBytes bytes. Default: 64 MiB
	Capacity      consume.Capacity // a further limit of concurrent transactions, such as a capacity of package limit/adaptive
	Drain         time.Duration    // how long handlers may continue after ctx has ended. Default: 30 s

	// SlowAcquire is the longest time that a transaction should wait for a connection of the database pool. After a longer wait, Consume reduces the
	// number of concurrent transactions by a quarter, down to 1. When waits are short, Consume increases the number of concurrent transactions
	// again, up to Concurrency. Default: 100 ms. If SlowAcquire is negative, long waits do not reduce the number of concurrent transactions.
	SlowAcquire time.Duration

	Decode func(m jetstream.Msg) (message.Message, error) // makes a message of a delivery; default: [Decode]
	Log    *slog.Logger                                   // gets warnings and errors; default: slog.Default()
}

const (
	defaultAckWait = 30 * time.Second
	maxAckPending  = 10000
	leastPause     = 250 * time.Millisecond
	fetchWait      = 5 * time.Second // how long the server holds a request for messages while none exists
)

// Consume passes the messages of a stream to an inbox until ctx ends. The inbox is the parameter in, and applies each message with fn. Consume
// creates or updates a durable pull consumer, which any number of processes can share. Each message is acknowledged after the commit that applies it.
// The server delivers a failed message again after the pause of inbox.Config.Policy. Consume also calls in.Run.
//
// When ctx ends, Consume takes no more messages. Consume gives messages that no handler has begun back to the server, waits for the running handlers,
// and returns nil. If handlers still run after ConsumerConfig.Drain, Consume cancels their contexts. Consume returns an error if the server refuses
// to create the consumer, if the NATS client has closed its connection and does not connect again, or if in.Run returns an error.
func Consume[TX any](ctx context.Context, js jetstream.JetStream, in *inbox.Inbox[TX], fn inbox.Handler[TX], cfg ConsumerConfig) error {
	if cfg.Durable == "" {
		cfg.Durable = in.Config().Consumer
	}
	c, err := newConsumer(js, consume.Into(in, fn), cfg)
	if err != nil {
		return err
	}
	return c.run(ctx)
}

type consumer struct {
	js   jetstream.JetStream
	cfg  ConsumerConfig
	pool *consume.Pool
	log  *slog.Logger
}

func newConsumer(js jetstream.JetStream, sink consume.Sink, cfg ConsumerConfig) (*consumer, error) {
	if cfg.Stream == "" && len(cfg.Subjects) == 0 {
		return nil, errors.New("natsbroker: ConsumerConfig.Stream and ConsumerConfig.Subjects are both empty. Try: Subjects: []string{\"refunds\"}")
	}
	if cfg.Durable == "" || strings.ContainsAny(cfg.Durable, " \t\r\n.*>/\\") {
		return nil, fmt.Errorf("natsbroker: ConsumerConfig.Durable %q cannot be the name of a consumer. Try: letters, digits and hyphens", cfg.Durable)
	}
	if cfg.AckWait < 0 || cfg.MaxAckPending < 0 {
		return nil, errors.New("natsbroker: ConsumerConfig.AckWait or MaxAckPending is negative. Try: leave the field out")
	}
	if cfg.AckWait == 0 {
		cfg.AckWait = defaultAckWait
	}
	if cfg.MaxAckPending == 0 {
		cfg.MaxAckPending = maxAckPending
	}
	if cfg.Decode == nil {
		cfg.Decode = Decode
	}
	pool, err := consume.New(sink, consume.Config{
		Concurrency: cfg.Concurrency, Batch: cfg.Batch, Prefetch: cfg.Prefetch, PrefetchBytes: cfg.PrefetchBytes,
		Capacity: cfg.Capacity, Extend: cfg.AckWait / 3, Drain: cfg.Drain, SlowAcquire: cfg.SlowAcquire, Log: cfg.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("natsbroker: %w", err)
	}
	return &consumer{js: js, cfg: cfg, pool: pool, log: pool.Config().Log}, nil
}

func (c *consumer) run(ctx context.Context) error {
	err := c.pool.Run(ctx, c.fetchAll)
	// The client buffers the last acknowledgements.
	flushing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = c.js.Conn().FlushWithContext(flushing) // if an acknowledgement is lost, the message is delivered again
	return err
}

// fetchAll fills the pool until ctx ends. If the server cannot be reached, it tries again. It returns an error if the server refuses
// the consumer, or if the client has closed the connection for good.
func (c *consumer) fetchAll(ctx context.Context) error {
	var consumer jetstream.Consumer
	created := false // this process has created the consumer once
	fails := false   // the log says that the consumer gets no messages
	for failures := 0; ctx.Err() == nil; {
		var err error
		if consumer != nil {
			if err = c.fetch(ctx, consumer); err == nil && fails {
				fails = false
				c.log.Info("once: natsbroker: the consumer gets messages from the server again", "consumer", c.cfg.Durable)
			}
		} else if consumer, err = c.create(ctx); err != nil && !created && ctx.Err() == nil && mustChange(err) {
			// An error at the start is a mistake in the configuration. Later the same error may pass, for example after a restart.
			return err
		}
		if err == nil {
			created = true
			failures = 0
			continue
		}
		if ctx.Err() != nil {
			break
		}
		if nc := c.js.Conn(); nc.IsClosed() {
			return closed(nc)
		}
		failures++
		// The stream or the consumer may be gone, so the consumer is created again.
		consumer = nil
		fails = true
		c.log.Warn("once: natsbroker: the consumer gets no messages from the server at the moment, and tries again. Try: check that the NATS server is running and that the stream exists",
			"consumer", c.cfg.Durable, "error", err)
		consume.Pause(ctx, failures)
	}
	return nil //nolint:nilerr // ctx has ended
}

// mustChange reports whether the consumer cannot be created before a person changes its configuration.
func mustChange(err error) bool {
	var refusal *jetstream.APIError
	if errors.As(err, &refusal) { // errors of a configuration have the code 400 or 500
		return refusal.Code != http.StatusServiceUnavailable && refusal.Code != http.StatusNotFound
	}
	return !isPassing(err) && !errors.Is(err, errNoStream)
}

// create creates the consumer, or changes it to the configured settings.
func (c *consumer) create(ctx context.Context) (jetstream.Consumer, error) {
	stream := c.cfg.Stream
	if stream == "" {
		var err error
		stream, err = c.js.StreamNameBySubject(ctx, c.cfg.Subjects[0])
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil, fmt.Errorf("natsbroker: %w %s. Try: create the stream", errNoStream, c.cfg.Subjects[0])
		}
		if err != nil {
			return nil, fmt.Errorf("natsbroker: look up the stream of subject %s: %w", c.cfg.Subjects[0], err)
		}
	}
	settings := jetstream.ConsumerConfig{
		Durable: c.cfg.Durable, FilterSubjects: c.cfg.Subjects,
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: c.cfg.AckWait, MaxDeliver: -1, MaxAckPending: c.cfg.MaxAckPending,
	}
	if len(c.cfg.Subjects) == 1 { // servers before 2.10 accept no list
		settings.FilterSubject, settings.FilterSubjects = c.cfg.Subjects[0], nil
	}
	consumer, err := c.js.CreateOrUpdateConsumer(ctx, stream, settings)
	if errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, nats.ErrNoResponders) {
		return nil, fmt.Errorf("natsbroker: %w: %s does not answer. Try: create the stream, or wait until its leader is back", errNoStream, stream)
	}
	if err != nil {
		return nil, fmt.Errorf("natsbroker: create the consumer %s of stream %s: %w", c.cfg.Durable, stream, err)
	}
	return consumer, nil
}

var errNoStream = errors.New("no stream for the subject")

// fetch asks for as many messages as the pool has room for, and puts the arriving messages into the pool.
func (c *consumer) fetch(ctx context.Context, consumer jetstream.Consumer) error {
	nc := c.js.Conn()
	// The server limits the size of a message, so all requested messages fit into the pool.
	n, err := c.pool.Room(ctx, int(nc.MaxPayload()))
	if err != nil {
		return nil
	}
	fetching, cancel := context.WithTimeoutCause(ctx, fetchWait, nil)
	defer cancel()
	// After a lost connection, neither the messages nor the end of the request arrive.
	lost := nc.StatusChanged(nats.RECONNECTING, nats.DISCONNECTED, nats.CLOSED)
	defer nc.RemoveStatusListener(lost)
	if status := nc.Status(); status != nats.CONNECTED {
		return notConnected(status)
	}
	batch, err := consumer.Fetch(n, jetstream.FetchContext(fetching))
	if err != nil {
		return fmt.Errorf("natsbroker: ask for messages: %w", err)
	}
	messages := batch.Messages()
	for {
		select {
		case m, ok := <-messages:
			if !ok {
				// A timeout only means that no message came.
				if err := batch.Error(); err != nil && fetching.Err() == nil && !errors.Is(err, nats.ErrTimeout) {
					return fmt.Errorf("natsbroker: wait for messages: %w", err)
				}
				return nil
			}
			c.pool.Add(c.delivery(m))
		case status := <-lost:
			cancel()
			for m := range messages { // messages that came before the connection was lost
				c.pool.Add(c.delivery(m))
			}
			return notConnected(status)
		}
	}
}

// delivery decodes a message of the stream.
func (c *consumer) delivery(m jetstream.Msg) *consume.Delivery {
	d := &consume.Delivery{Receipt: receipt{m}}
	d.Decode(message.Message{Topic: m.Subject(), Payload: m.Data()}, func() (message.Message, error) { return c.cfg.Decode(m) })
	delivery := 0
	place := ""
	if at, err := m.Metadata(); err == nil {
		delivery = int(min(at.NumDelivered, 1<<30))
		place = fmt.Sprintf("%s/%d", at.Stream, at.Sequence.Stream)
	}
	d.Message.Delivery = delivery
	if d.Malformed != nil && d.Message.ID == "" { // the position in the stream identifies the message
		d.Message.ID, d.Message.Source = place, "nats"
	}
	return d
}

// receipt answers the server. If an answer is lost, the message is delivered again, and the inbox detects this.
type receipt struct{ m jetstream.Msg }

// Ack implements [consume.Receipt].
func (r receipt) Ack() { _ = r.m.Ack() }

// Again implements [consume.Receipt].
func (r receipt) Again(after time.Duration) bool {
	// After a shorter pause, the server could send the message to this process again, whose last request may still be open.
	_ = r.m.NakWithDelay(max(after, leastPause))
	return true
}

// Apart implements [consume.Receipt]. It does nothing, because the server stores messages that were given back, and delivers them again later.
func (r receipt) Apart(int) {}

// Extend implements [consume.Receipt].
func (r receipt) Extend() { _ = r.m.InProgress() }
