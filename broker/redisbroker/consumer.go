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

// ConsumerConfig says which messages [Consume] reads, and how. Streams is required.
type ConsumerConfig struct {
	Streams []string
	Group   string // the group of the streams. Default: Consumer of the inbox

	// MinIdle is how long a message stays with a process without a sign of life. A process that is dead or stopped gives none, and another process
	// claims the message. Default 30 s.
	MinIdle time.Duration

	// Keep is how long a message stays in its stream after it was added, if every group of the stream has acknowledged it and all messages before it.
	// Then Consume deletes it, about a hundred messages at a time. A group that is created later does not get deleted messages. Default: for ever,
	// until the memory is full.
	Keep time.Duration

	Concurrency int // concurrent transactions, at most. Default 8
	Batch       int // messages in one transaction, at most. Default 64
	Prefetch    int // messages in memory, at most, and as many again that have failed or wait for their key. Default 512

	// PrefetchBytes bounds the bytes of the first group, and of the second group. Before it is read, a message counts with the largest size that an
	// outbox sends. Default 64 MiB.
	PrefetchBytes int

	Capacity consume.Capacity // a further bound of concurrent transactions, such as the one of package limit/adaptive
	Drain    time.Duration    // how long handlers may still run after the end of ctx. Default 30 s

	// SlowAcquire is how long a transaction may wait for a connection of the pool. After a longer wait Concurrency is reduced by a quarter, down to
	// 1; it grows again when waits are short. Default 100 ms. A negative SlowAcquire keeps Concurrency constant.
	SlowAcquire time.Duration

	Decode func(stream string, m redis.XMessage) (message.Message, error) // default: [Decode]
	Log    *slog.Logger                                                   // default: slog.Default()
}

const (
	defaultMinIdle = 30 * time.Second
	readWait       = time.Second // how long the server holds a request for messages while none exists; the end of Consume waits as long
	largest        = message.MaxPayload + message.MaxHeaders
)

// Consume passes the messages of streams to the inbox in, which applies each of them with fn, until ctx ends. It creates the group if it is missing; any number of processes can share it.
// Each message is acknowledged after the commit that applies it. A failed message is tried again by the same process, after the pause of the inbox's
// policy. Consume also runs in.Run.
//
// When ctx ends, it takes no more messages, waits for running handlers, gives back the messages that have not begun, and returns nil. After Drain it
// cancels the contexts of handlers. It returns an error if the server refuses the user at the start, if the program has closed the client, or if
// in.Run ends with one.
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
	name    string // of this process in the groups
	pool    *consume.Pool
	log     *slog.Logger
	streams []*stream

	fetching sync.Mutex // held by the stream that is fetching

	mu    sync.Mutex
	apart int // messages that have failed or wait for their key
	bytes int // of these
}

func newConsumer(rdb *redis.Client, sink consume.Sink, cfg ConsumerConfig) (*consumer, error) {
	if len(cfg.Streams) == 0 || slices.Contains(cfg.Streams, "") || cfg.Group == "" {
		return nil, errors.New("redisbroker: ConsumerConfig.Streams or ConsumerConfig.Group is empty. Try: Streams: []string{\"refunds\"}, Group: \"billing\"")
	}
	if cfg.MinIdle < 0 || cfg.Keep < 0 {
		return nil, errors.New("redisbroker: ConsumerConfig.MinIdle or Keep is negative. Try: leave the field out")
	}
	cfg.Streams = slices.Compact(slices.Sorted(slices.Values(cfg.Streams)))
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
	host, _ := os.Hostname() // only for people
	c := &consumer{rdb: rdb, cfg: cfg, name: fmt.Sprintf("%s-%d-%s", host, os.Getpid(), once.NewKey()[24:]), pool: pool, log: pool.Config().Log}
	for _, name := range cfg.Streams {
		c.streams = append(c.streams, &stream{consumer: c, stream: name, held: map[string]*receipt{}, wake: make(chan struct{}, 1)})
	}
	return c, nil
}

func (c *consumer) run(ctx context.Context) error {
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

// readAll fills the pool until ctx ends, or until one of the streams reports that none of them can be read any more.
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

// setApart counts a long-waiting message; a negative number of bytes removes it.
func (c *consumer) setApart(messages, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.apart += messages
	c.bytes += bytes
}

// isFull reports whether the process has reached its bound of long-waiting messages.
func (c *consumer) isFull() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	bounds := c.pool.Config()
	return c.apart >= bounds.Prefetch || c.bytes >= bounds.PrefetchBytes
}
