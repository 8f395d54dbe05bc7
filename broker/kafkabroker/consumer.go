package kafkabroker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/consume"
	"github.com/oncelib/once/message"
)

// ConsumerConfig configures [Consume]. Client and Topics are required.
type ConsumerConfig struct {
	Client []kgo.Opt // the options to connect to the brokers, such as kgo.SeedBrokers("kafka:9092")
	Topics []string  // the topics to consume
	Group  string    // the consumer group. Default: inbox.Config.Consumer

	// Window limits how far Consume reads ahead in a partition. After the first record that the inbox has not yet applied or stored, Consume fetches
	// at most Window records. While a message waits for its next attempt, Consume applies messages with other keys in the same partition, until
	// Consume is Window records ahead of the waiting message. Other partitions are not affected. A process that takes over the partition may read up
	// to Window records again. Default: 10,000.
	Window int

	Concurrency int // the largest number of concurrent transactions. Default: 8
	Batch       int // the largest number of messages in one transaction. Default: 64
	Prefetch    int // the largest number of messages in memory; messages in the client's buffer and waiting messages (see PrefetchBytes) are not counted. Default: 512

	// PrefetchBytes limits the total size of the messages in memory, in bytes, including the buffer of the client. In addition, waiting messages may
	// use up to PrefetchBytes bytes. A waiting message is a message that has failed, or a later message with the key of a failed message. Each
	// partition has an equal share of the bytes for waiting messages. While the waiting messages of a partition use the whole share of the
	// partition, Consume does not fetch the partition. Default: 64 MiB.
	PrefetchBytes int

	Capacity consume.Capacity // a further limit of concurrent transactions, such as a capacity of package limit/adaptive
	Drain    time.Duration    // how long handlers may continue after ctx has ended. Default: 30 s

	// SlowAcquire is the longest time that a transaction should wait for a connection of the database pool. After a longer wait, Consume reduces the
	// number of concurrent transactions by a quarter, down to 1. When waits are short, Consume increases the number of concurrent transactions
	// again, up to Concurrency. Default: 100 ms. If SlowAcquire is negative, long waits do not reduce the number of concurrent transactions.
	SlowAcquire time.Duration

	Decode func(r *kgo.Record) (message.Message, error) // makes a message of a record; default: [Decode]
	Log    *slog.Logger                                 // gets warnings and errors; default: slog.Default()
}

const (
	defaultWindow  = 10000
	commitInterval = time.Second
	leaveTimeout   = 10 * time.Second
)

// Consume passes the records of topics to an inbox until ctx ends. The inbox is the parameter in, and applies each record with fn. Any number of
// processes can share the consumer group. Consume commits an offset to Kafka only after the database has committed all records before this offset. A
// failed message is tried again by the same process, after the pause of inbox.Config.Policy. Consume also calls in.Run.
//
// When a partition is assigned to another process, Consume takes no more records of this partition, waits for running handlers, and commits the
// offset. When ctx ends, Consume takes no more records, waits for running handlers, commits the offsets of all partitions, leaves the group,
// and returns nil. If handlers still run after ConsumerConfig.Drain, Consume cancels their contexts. Consume returns an error if the options in
// ConsumerConfig.Client make no valid client, or if in.Run returns an error.
func Consume[TX any](ctx context.Context, in *inbox.Inbox[TX], fn inbox.Handler[TX], cfg ConsumerConfig) error {
	if cfg.Group == "" {
		cfg.Group = in.Config().Consumer
	}
	c, err := newConsumer(consume.Into(in, fn), cfg)
	if err != nil {
		return err
	}
	return c.run(ctx)
}

// place identifies a partition.
type place struct {
	topic  string
	number int32
}

type consumer struct {
	cfg    ConsumerConfig
	client *kgo.Client
	pool   *consume.Pool
	log    *slog.Logger

	mu         sync.Mutex
	partitions map[place]*partition
	assigned   atomic.Int64 // the number of partitions of this process
}

func newConsumer(sink consume.Sink, cfg ConsumerConfig) (*consumer, error) {
	if len(cfg.Topics) == 0 || cfg.Group == "" {
		return nil, errors.New("kafkabroker: ConsumerConfig.Topics or ConsumerConfig.Group is empty. Try: Topics: []string{\"refunds\"}, Group: \"billing\"")
	}
	if cfg.Window < 0 {
		return nil, errors.New("kafkabroker: ConsumerConfig.Window is negative. Try: leave Window out")
	}
	if cfg.Window == 0 {
		cfg.Window = defaultWindow
	}
	if cfg.Decode == nil {
		cfg.Decode = Decode
	}
	c := &consumer{cfg: cfg, partitions: map[place]*partition{}}
	pool, err := consume.New(sink, consume.Config{
		Concurrency: cfg.Concurrency, Batch: cfg.Batch, Prefetch: cfg.Prefetch, PrefetchBytes: cfg.PrefetchBytes,
		Capacity: cfg.Capacity, Drain: cfg.Drain, SlowAcquire: cfg.SlowAcquire, Log: cfg.Log, Paused: c.paused,
	})
	if err != nil {
		return nil, fmt.Errorf("kafkabroker: %w", err)
	}
	c.pool, c.log = pool, pool.Config().Log
	buffer := int32(min(pool.Config().PrefetchBytes, 32<<20))
	options := slices.Concat([]kgo.Opt{
		// One fetch at a time, so that the buffer of the client never has more than its limit.
		kgo.FetchMaxBytes(buffer), kgo.FetchMaxPartitionBytes(min(buffer, 1<<20)), kgo.MaxConcurrentFetches(1),
	}, cfg.Client, []kgo.Opt{
		kgo.ConsumerGroup(cfg.Group), kgo.ConsumeTopics(cfg.Topics...),
		kgo.AutoCommitMarks(), kgo.AutoCommitInterval(commitInterval), kgo.AutoCommitCallback(c.committed),
		kgo.BlockRebalanceOnPoll(), kgo.OnPartitionsAssigned(c.gained), kgo.OnPartitionsRevoked(c.revoked), kgo.OnPartitionsLost(c.lost),
	})
	if c.client, err = kgo.NewClient(options...); err != nil {
		return nil, fmt.Errorf("kafkabroker: make the client of a consumer: %w", err)
	}
	return c, nil
}

func (c *consumer) run(ctx context.Context) error {
	err := c.pool.Run(ctx, c.pollAll)
	leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	// The last poll has blocked rebalances, which must not delay the end.
	c.client.AllowRebalance()
	c.commit(leaving, c.client)
	_ = c.client.LeaveGroupContext(leaving) // otherwise the group detects the end of this process only after a timeout
	c.client.Close()
	return err
}

// pollAll fills the pool until ctx ends.
func (c *consumer) pollAll(ctx context.Context) error {
	for failures := 0; ; {
		n, err := c.pool.Room(ctx, 1)
		if err != nil {
			return nil //nolint:nilerr // ctx has ended
		}
		// The client blocks rebalances between PollRecords and AllowRebalance, so that no partition is revoked while records are added.
		fetches := c.client.PollRecords(ctx, n)
		c.add(fetches)
		c.client.AllowRebalance()
		if ctx.Err() != nil {
			return nil //nolint:nilerr // ctx has ended
		}
		errs := fetches.Errors()
		if len(errs) == 0 {
			if failures > 0 {
				c.log.Info("once: kafkabroker: all partitions of this process can be read again", "group", c.cfg.Group)
			}
			failures = 0
			continue
		}
		failures++
		for _, e := range errs {
			c.log.Warn("once: kafkabroker: a partition cannot be read at the moment, and the consumer tries again. Try: check that the brokers are running and that the topic exists",
				"group", c.cfg.Group, "topic", e.Topic, "partition", e.Partition, "error", e.Err)
		}
		consume.Pause(ctx, failures)
	}
}

// add puts records into the pool. No partition can be revoked during this call.
func (c *consumer) add(fetches kgo.Fetches) {
	var list []*consume.Delivery
	fetches.EachPartition(func(f kgo.FetchTopicPartition) {
		if len(f.Records) == 0 {
			return
		}
		p := c.partition(place{f.Topic, f.Partition})
		for _, r := range f.Records {
			d := &consume.Delivery{Receipt: p.add(r)}
			d.Decode(message.Message{Topic: r.Topic, Payload: r.Value}, func() (message.Message, error) { return c.cfg.Decode(r) })
			if d.Malformed != nil && d.Message.ID == "" { // the position of the record identifies it
				d.Message.ID, d.Message.Source = fmt.Sprintf("%s/%d/%d", r.Topic, r.Partition, r.Offset), "kafka"
			}
			list = append(list, d)
		}
	})
	c.pool.Add(list...)
}

// partition returns the state of a partition of this process.
func (c *consumer) partition(at place) *partition {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.partitions[at]
	if p == nil {
		prefetch := c.pool.Config().Prefetch
		p = &partition{client: c.client, topic: at.topic, number: at.number, most: max(1, prefetch/2), window: c.cfg.Window, share: c.share, log: c.log}
		c.partitions[at] = p
	}
	return p
}

// share returns the limit of the bytes of long-waiting records of a partition. Such records of all partitions together may have as
// many bytes as the other records.
func (c *consumer) share() int {
	return max(1, c.pool.Config().PrefetchBytes/int(max(1, c.assigned.Load())))
}

// paused returns how many partitions are not fetched because of their long-waiting records, and the partition that was paused
// first.
func (c *consumer) paused() (n int, oldest inbox.Waiting) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for at, p := range c.partitions {
		if since := p.stuckSince(); !since.IsZero() {
			n++
			oldest = oldest.Older(inbox.Waiting{Topic: at.topic, Partition: at.number, Since: since})
		}
	}
	return n, oldest
}

// gained is called when this process gets partitions. It only counts them: their state begins with the first record.
func (c *consumer) gained(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
	for _, numbers := range partitions {
		c.assigned.Add(int64(len(numbers)))
	}
}

// revoked is called before partitions go to another process. It ends the work on them and commits, so that the other process does not
// read the same records again.
func (c *consumer) revoked(ctx context.Context, client *kgo.Client, partitions map[string][]int32) {
	timeout, _ := client.OptValue(kgo.RebalanceTimeout).(time.Duration)
	// The rest of the time is for the commit and for the rebalance itself.
	waiting, cancel := context.WithTimeout(ctx, timeout*3/4)
	defer cancel()
	ended := c.forget(partitions)
	// If a handler does not end in time, the other process reads its records, too, and the inbox applies them once.
	if err := c.drop(waiting, ended); err != nil {
		c.log.Warn("once: kafkabroker: a partition was reassigned to another process while a handler of this process still works on its messages; the inbox applies each message once. Try: a longer kgo.RebalanceTimeout", "group", c.cfg.Group)
	}
	for p := range ended {
		p.end()
	}
	c.commit(ctx, client)
}

// lost is called when another process may already have the partitions, so no commit is allowed.
func (c *consumer) lost(ctx context.Context, _ *kgo.Client, partitions map[string][]int32) {
	ended := c.forget(partitions)
	for p := range ended {
		p.end()
	}
	dropping, cancel := context.WithCancel(ctx)
	cancel() // no wait is needed, because the work of this process has no effect on the group any more
	_ = c.drop(dropping, ended)
}

// forget removes partitions from the partitions of this process, and returns the partitions that had records.
func (c *consumer) forget(partitions map[string][]int32) map[*partition]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	ended := map[*partition]bool{}
	for topic, numbers := range partitions {
		c.assigned.Add(-int64(len(numbers)))
		for _, number := range numbers {
			at := place{topic, number}
			if p := c.partitions[at]; p != nil {
				ended[p] = true
				delete(c.partitions, at)
			}
		}
	}
	return ended
}

// drop removes the messages of partitions from the pool.
func (c *consumer) drop(ctx context.Context, ended map[*partition]bool) error {
	return c.pool.Drop(ctx, func(d *consume.Delivery) bool {
		r, ok := d.Receipt.(*receipt)
		return ok && ended[r.partition]
	})
}

// commit commits the offsets of finished records.
func (c *consumer) commit(ctx context.Context, client *kgo.Client) {
	if err := client.CommitMarkedOffsets(ctx); err != nil {
		c.tellCommit(err)
	}
}

// committed is called after each automatic commit of the client.
func (c *consumer) committed(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, _ *kmsg.OffsetCommitResponse, err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		c.tellCommit(err)
	}
}

func (c *consumer) tellCommit(err error) {
	c.log.Warn("once: kafkabroker: an offset was not committed, so later records may be delivered again; the inbox applies each record once",
		"group", c.cfg.Group, "error", err)
}
