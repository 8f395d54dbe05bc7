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

// ConsumerConfig says what [Consume] reads. Streams is required.
type ConsumerConfig struct {
	Streams []string
	Group   string // the group of the streams. Default: Consumer of the inbox

	// MinIdle is how long a message stays with a process that does not tell that it still works on it, because it is dead or stopped, until another process
	// claims it. Default 30 s.
	MinIdle time.Duration

	// Keep is how long a message stays in its stream after it was added, when every group of the stream has acknowledged it and all before it. Consume deletes such
	// messages, about a hundred at a time. A group that is created later does not get them. Default: for ever, until the memory is full.
	Keep time.Duration

	Concurrency int // transactions at once, at most. Default 8
	Batch       int // messages in one transaction, at most. Default 64
	Prefetch    int // messages in memory, at most, and as many that have failed or wait for their key. Default 512

	// PrefetchBytes is the bytes of these, at most, and of those. A message counts as the largest that an outbox sends before it is read. Default 64 MiB.
	PrefetchBytes int

	Capacity consume.Capacity // one more bound of transactions at once, such as that of package limit/adaptive
	Drain    time.Duration    // how long handlers may go on when ctx has ended. Default 30 s

	// SlowAcquire is how long a transaction may wait for a connection of the pool. When one has waited longer, Concurrency becomes
	// smaller by a quarter, down to 1, and grows again when they do not. Default 100 ms; negative: Concurrency stays.
	SlowAcquire time.Duration

	Decode func(stream string, m redis.XMessage) (message.Message, error) // default: [Decode]
	Log    *slog.Logger                                                   // default: slog.Default()
}

const (
	defaultMinIdle = 30 * time.Second
	readWait       = time.Second // how long a request for messages waits for them at the server; the end of Consume waits as long
	largest        = message.MaxPayload + message.MaxHeaders
)

// Consume applies the messages of streams to in, by fn, until ctx ends. It creates the group where it is missing; any
// number of processes share it. Each message is acknowledged after the commit that applies it. One that fails is tried again by the same
// process, after the pause that the policy of the inbox says. It runs in.Run beside.
//
// When ctx ends, it takes no more messages, waits for handlers that run, gives back what they have not begun, and returns nil. After Drain it cancels the
// contexts of handlers. It returns an error if the server refuses the user at the start, if the program has closed the client, or if in.Run ends with one.
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

	fetching sync.Mutex // held by the stream that fetches what there is room for

	mu    sync.Mutex
	apart int // messages that have failed or wait for their key
	bytes int // of these
}

func newConsumer(rdb *redis.Client, sink consume.Sink, cfg ConsumerConfig) (*consumer, error) {
	if len(cfg.Streams) == 0 || slices.Contains(cfg.Streams, "") || cfg.Group == "" {
		return nil, errors.New("redisbroker: no Streams or no Group. Try: Streams: []string{\"refunds\"}, Group: \"billing\"")
	}
	if cfg.MinIdle < 0 || cfg.Keep < 0 {
		return nil, errors.New("redisbroker: a negative MinIdle or Keep. Try: leave it out")
	}
	cfg.Streams = slices.Compact(slices.Sorted(slices.Values(cfg.Streams)))
	if size := rdb.Options().PoolSize; size < len(cfg.Streams)+2 {
		return nil, fmt.Errorf("redisbroker: each stream is read over a connection of its own, and the client has %d for %d streams. Try: redis.Options{PoolSize: %d}",
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
	host, _ := os.Hostname() // it only helps people
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

// readAll fills the pool until ctx ends, or one of the streams says that no one of them can be read any more.
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

// setApart counts a message that waits for long; a negative number of bytes takes it back.
func (c *consumer) setApart(messages, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.apart += messages
	c.bytes += bytes
}

// isFull reports whether so many messages wait for long that this process keeps no more of them.
func (c *consumer) isFull() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	bounds := c.pool.Config()
	return c.apart >= bounds.Prefetch || c.bytes >= bounds.PrefetchBytes
}
