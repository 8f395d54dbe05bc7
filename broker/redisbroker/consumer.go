package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncelib/once"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/consume"
	"github.com/oncelib/once/message"
)

// ConsumerConfig configures [Consume]. Streams is required.
type ConsumerConfig struct {
	Streams []string // the names of the streams
	Group   string   // the consumer group; default: inbox.Config.Consumer

	// MinIdle is the idle time after which another process may claim a message. A running process keeps the idle time of its messages shorter than
	// MinIdle. If a process is dead or stopped, another process claims the messages of the dead or stopped process after MinIdle. Default: 30 s.
	MinIdle time.Duration

	// Keep is how long a message stays in its stream after it was added. When a message is older than Keep, Consume deletes the message, but only if
	// every group of the stream has acknowledged this message and all earlier messages. Redis deletes about a hundred messages at a time. A group
	// that is created later does not get deleted messages. Default: 0, Consume deletes no messages, so the memory of the server may become full.
	Keep time.Duration

	Concurrency int // the largest number of concurrent transactions. Default: 8
	Batch       int // the largest number of messages in one transaction. Default: 64
	Prefetch    int // the largest number of messages in memory, without waiting messages. In addition, up to Prefetch messages may wait in memory: messages that have failed, and later messages with the keys of failed messages. Default: 512

	// PrefetchBytes limits the total size of the messages in memory, in bytes. In addition, messages that have failed, or that wait for an
	// earlier message of their key, may use up to PrefetchBytes bytes. If Consume has requested a message and the message has not arrived,
	// Consume counts the largest size that an outbox sends. Default: 64 MiB.
	PrefetchBytes int

	Capacity consume.Capacity // a further limit of concurrent transactions, such as a capacity of package limit/adaptive
	Drain    time.Duration    // how long handlers may continue after ctx has ended. Default: 30 s

	// SlowAcquire is the longest time that a transaction should wait for a connection of the database pool. After a longer wait, Consume reduces the
	// number of concurrent transactions by a quarter, down to 1. When waits are short, Consume increases the number of concurrent transactions
	// again, up to Concurrency. Default: 100 ms. If SlowAcquire is negative, long waits do not reduce the number of concurrent transactions.
	SlowAcquire time.Duration

	Decode func(stream string, m redis.XMessage) (message.Message, error) // makes a message of an entry of a stream; default: [Decode]
	Log    *slog.Logger                                                   // gets warnings and errors; default: slog.Default()
}

const (
	defaultMinIdle = 30 * time.Second
	readWait       = time.Second // how long the server holds a request for messages while none exists; the end of Consume may wait as long
	largest        = message.MaxPayload + message.MaxHeaders
)

// Consume passes the messages of streams to an inbox until ctx ends. The inbox is the parameter in, and applies each message with fn. Consume
// creates the consumer group if the group does not exist; any number of processes can share the group. Each message is acknowledged after the
// commit that applies it. A failed message is tried again by the same process, after the pause of inbox.Config.Policy. Consume also calls in.Run.
//
// When ctx ends, Consume takes no more messages. Other processes later claim the messages that no handler has begun. Consume waits for the running
// handlers, and returns nil. If handlers still run after ConsumerConfig.Drain, Consume cancels their contexts. Consume returns an error if the
// server refuses the user name when Consume starts, if the program has closed rdb, or if in.Run returns an error.
func Consume[TX any](ctx context.Context, rdb *redis.Client, in *inbox.Inbox[TX], fn inbox.Handler[TX], cfg ConsumerConfig) error {
	if cfg.Group == "" {
		cfg.Group = in.Config().Consumer
	}
	c, err := newConsumer(rdb, consume.Into(in, fn), cfg)
	if err != nil {
		return err
	}
	return c.run(ctx)
}

type consumer struct {
	rdb     *redis.Client
	cfg     ConsumerConfig
	name    string // the name of this process in the groups
	pool    *consume.Pool
	log     *slog.Logger
	streams []*stream

	fetching sync.Mutex // the stream that is fetching holds it

	mu    sync.Mutex
	apart int // the number of messages that have failed or wait for their key
	bytes int // the size of these messages
}

func newConsumer(rdb *redis.Client, sink consume.Sink, cfg ConsumerConfig) (*consumer, error) {
	if len(cfg.Streams) == 0 || slices.Contains(cfg.Streams, "") || cfg.Group == "" {
		return nil, errors.New("redisbroker: ConsumerConfig.Streams or ConsumerConfig.Group is empty. Try: Streams: []string{\"refunds\"}, Group: \"billing\"")
	}
	if cfg.MinIdle < 0 || cfg.Keep < 0 {
		return nil, errors.New("redisbroker: ConsumerConfig.MinIdle or Keep is negative. Try: leave the field out")
	}
	cfg.Streams = slices.Compact(slices.Sorted(slices.Values(cfg.Streams)))
	// A blocking read keeps its connection, so each stream needs one, and the answers need more.
	if size := rdb.Options().PoolSize; size < len(cfg.Streams)+2 {
		return nil, fmt.Errorf("redisbroker: each stream needs a connection of its own, but the client has only %d connections for %d streams. Try: redis.Options{PoolSize: %d}",
			size, len(cfg.Streams), len(cfg.Streams)+10)
	}
	if cfg.MinIdle == 0 {
		cfg.MinIdle = defaultMinIdle
	}
	if cfg.Decode == nil {
		cfg.Decode = Decode
	}
	pool, err := consume.New(sink, consume.Config{
		Concurrency: cfg.Concurrency, Batch: cfg.Batch, Prefetch: cfg.Prefetch, PrefetchBytes: cfg.PrefetchBytes,
		Capacity: cfg.Capacity, Extend: cfg.MinIdle / 3, Drain: cfg.Drain, SlowAcquire: cfg.SlowAcquire, Log: cfg.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("redisbroker: %w", err)
	}
	host, _ := os.Hostname() // without a name of the host, the random part still makes the name unique
	c := &consumer{rdb: rdb, cfg: cfg, name: fmt.Sprintf("%s-%d-%s", host, os.Getpid(), once.NewKey()[24:]), pool: pool, log: pool.Config().Log}
	for _, name := range cfg.Streams {
		c.streams = append(c.streams, &stream{consumer: c, stream: name, held: map[string]*receipt{}, wake: make(chan struct{}, 1)})
	}
	return c, nil
}

func (c *consumer) run(ctx context.Context) error {
	// The answers of the last handlers must be sent after ctx has ended.
	answering, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	var answers sync.WaitGroup
	for _, s := range c.streams {
		answers.Go(func() { s.answerAll(answering) })
	}
	err := c.pool.Run(ctx, c.readAll)
	end()
	answers.Wait()
	return err
}

// readAll fills the pool until ctx ends, or until a stream returns an error that concerns all streams.
func (c *consumer) readAll(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var reading sync.WaitGroup
	errs := make([]error, len(c.streams))
	for i, s := range c.streams {
		reading.Go(func() {
			if errs[i] = s.readAll(ctx); errs[i] != nil {
				stop()
			}
		})
	}
	reading.Wait()
	return errors.Join(errs...)
}

// setApart changes the number and the size of long-waiting messages. Negative values remove messages.
func (c *consumer) setApart(messages, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.apart += messages
	c.bytes += bytes
}

// isFull reports whether this process has reached its limit of long-waiting messages.
func (c *consumer) isFull() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	bounds := c.pool.Config()
	return c.apart >= bounds.Prefetch || c.bytes >= bounds.PrefetchBytes
}
