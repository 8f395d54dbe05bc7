package consumer

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/oncelib/once/broker/kafkabroker"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
)

// kafka is a model of a Kafka broker in this process, with one topic.
type kafka struct {
	address string
	client  *kgo.Client
}

func newKafka(t *testing.T, partitions int32) *kafka {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, topic),
		kfake.BrokerConfigs(map[string]string{"group.min.session.timeout.ms": "100"}))
	must(t, err)
	t.Cleanup(cluster.Close)
	k := &kafka{address: cluster.ListenAddrs()[0]}
	k.client, err = kgo.NewClient(kgo.SeedBrokers(k.address), kgo.DisableIdempotentWrite())
	must(t, err)
	t.Cleanup(k.client.Close)
	return k
}

// into implements broker.
func (k *kafka) into(p *plan) { p.Kafka = k.address }

// points implements broker.
func (k *kafka) points() []int64 { return []int64{1, 2, 7, 9, 12, 13} }

// repeat implements broker.
func (k *kafka) repeat(t *testing.T, list []message.Message) {
	t.Helper()
	k.publish(t, list)
}

// disturb implements broker. A model of Kafka in this process cannot be killed.
func (k *kafka) disturb() error { return nil }

// publish implements broker.
func (k *kafka) publish(t *testing.T, list []message.Message) {
	t.Helper()
	publish(t, kafkabroker.Publisher(k.client), list)
}

// config is that of a consumer.
func (k *kafka) config() kafkabroker.ConsumerConfig {
	return kafkabroker.ConsumerConfig{Client: kafkaOptions(k.address, time.Minute), Topics: []string{topic}, Log: quiet}
}

// committed returns the sum of the offsets that the group has committed.
func (k *kafka) committed(t *testing.T) (sum int64) {
	t.Helper()
	offsets, err := kadm.NewClient(k.client).FetchOffsets(t.Context(), "billing")
	must(t, err)
	offsets.Each(func(o kadm.OffsetResponse) { sum += o.At })
	return sum
}

// end returns the sum of the offsets at which the partitions end.
func (k *kafka) end(t *testing.T) (sum int64) {
	t.Helper()
	offsets, err := kadm.NewClient(k.client).ListEndOffsets(t.Context(), topic)
	must(t, err)
	offsets.Each(func(o kadm.ListedOffset) { sum += o.Offset })
	return sum
}

// waitDone waits until all offsets are committed.
func (k *kafka) waitDone(t *testing.T) {
	t.Helper()
	until(t, "the commit of all offsets", func() bool { return k.committed(t) == k.end(t) })
}

// members returns how many members of the group have partitions, and how many partitions they have.
func (k *kafka) members(t *testing.T) (members, partitions int) {
	t.Helper()
	groups, err := kadm.NewClient(k.client).DescribeGroups(t.Context(), "billing")
	must(t, err)
	for _, m := range groups["billing"].Members {
		if assigned, ok := m.Assigned.AsConsumer(); ok {
			n := 0
			for _, of := range assigned.Topics {
				n += len(of.Partitions)
			}
			if partitions += n; n > 0 {
				members++
			}
		}
	}
	return members, partitions
}

// TestKafkaMessagesAreAppliedOnce: duplicates and handlers that fail: each message is applied once, in the order of its key, and all
// offsets are committed. What cannot be decoded is a dead letter.
func TestKafkaMessagesAreAppliedOnce(t *testing.T) {
	t.Parallel()
	k, g := newKafka(t, 3), newSQLite(t)
	list := batch(7, 1, 20)
	k.publish(t, list[:70])
	k.publish(t, list[:9])
	k.publish(t, list[70:])
	must(t, k.client.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte("this is no event")}).FirstErr())
	e := &events{}
	in := g.inbox(e)
	var failed sync.Map
	stop := start(t, func(ctx context.Context) error {
		return kafkabroker.Consume(ctx, in, func(ctx context.Context, tx sqlTx, m message.Message) error {
			if _, before := failed.LoadOrStore(m.ID, true); !before && m.Seq%4 == 0 {
				return errNow
			}
			return g.apply(ctx, tx, m)
		}, k.config())
	})
	g.waitFor(t, len(list))
	k.waitDone(t)
	stop()
	if dead := g.count(t, "select count(*) from once_deadletter where class = 'malformed' and source = 'kafka' and event_id like 'refunds/%'"); dead != 1 {
		t.Errorf("%d dead letters", dead)
	}
	g.exec(t, "delete from once_deadletter where class = 'malformed'")
	g.check(t, len(list), 7)
	if e.count(inbox.EventDuplicate) == 0 || e.count(inbox.EventFailed) == 0 {
		t.Error("the run has not met what it is for")
	}
}

// TestKafkaSendersLie: what no database can store, in the key, the time or the headers of a record, and a decoder that panics,
// stop no partition: each record is applied or a dead letter.
func TestKafkaSendersLie(t *testing.T) {
	t.Parallel()
	k, g := newKafka(t, 1), newPgx(t)
	event := func(id string, more ...kgo.RecordHeader) *kgo.Record {
		r := &kgo.Record{Topic: topic, Value: []byte("{}")}
		for _, attribute := range [][2]string{{"specversion", "1.0"}, {"id", id}, {"source", "test"}, {"type", "t"}} {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: "ce_" + attribute[0], Value: []byte(attribute[1])})
		}
		r.Headers = append(r.Headers, more...)
		return r
	}
	number, far := event("a number as key"), event("a far time", kgo.RecordHeader{Key: "ce_sequence", Value: []byte("2")}, kgo.RecordHeader{Key: "ce_partitionkey", Value: []byte("k")})
	number.Key = []byte{0, 0, 0, 0, 0, 0, 0, 42}
	malformed := &kgo.Record{Topic: topic, Value: []byte("this is no event"), Key: number.Key}
	large := event("large headers", kgo.RecordHeader{Key: "x", Value: make([]byte, message.MaxReceivedHeaders)}, kgo.RecordHeader{Key: "y", Value: bytes.Repeat([]byte("y"), message.MaxReceivedHeaders)})
	for _, r := range []*kgo.Record{number, far, malformed, large, event("panics"), event("last")} {
		must(t, k.client.ProduceSync(t.Context(), r).FirstErr())
	}
	cfg := k.config()
	cfg.Decode = func(r *kgo.Record) (message.Message, error) {
		m, err := kafkabroker.Decode(r)
		if m.ID == "panics" {
			panic("the decoder panics")
		}
		if m.ID != "last" { // the producer of this test sends no such time
			m.CreatedAt = time.Date(300000, 1, 1, 0, 0, 0, 0, time.UTC)
		}
		return m, err
	}
	start(t, func(ctx context.Context) error { return kafkabroker.Consume(ctx, g.inbox(&events{}), g.apply, cfg) })
	g.waitFor(t, 2)
	k.waitDone(t)
	for query, want := range map[string]int{
		"select count(*) from applied where id in ('a number as key', 'last')":                                                                         2,
		"select count(*) from once_inbox_parked where event_id = 'a far time' and created_at is null":                                                  1,
		"select count(*) from once_deadletter where class = 'malformed' and payload = 'this is no event'":                                              1,
		"select count(*) from once_deadletter where class = 'malformed' and event_id = 'large headers'":                                                1,
		"select count(*) from once_deadletter where class = 'malformed' and error like '%the decoder panics%' and source = 'kafka' and payload = '{}'": 1,
		"select count(*) from once_deadletter": 3,
	} {
		if n := g.count(t, query); n != want {
			t.Errorf("%d, want %d: %s", n, want, query)
		}
	}
}

// TestKafkaOffsetWaits: while the handler of one record has not returned, later records of other keys are applied, and
// the offset is not committed beyond it. When the consumer ends, it is committed at once.
func TestKafkaOffsetWaits(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	k, g := newKafka(t, 1), newPgx(t)
	k.publish(t, batch(6, 1, 1))
	k.publish(t, batch(6, 2, 6))
	free := make(chan struct{})
	cfg := k.config()
	cfg.Batch = 1
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- kafkabroker.Consume(ctx, g.inbox(&events{}), func(ctx context.Context, tx pgxTx, m message.Message) error {
			if m.Key == "key 3" && m.Seq == 1 {
				<-free
			}
			return g.apply(ctx, tx, m)
		}, cfg)
	}()
	g.waitFor(t, 5*6)
	var first int64 // records before the one that is not done
	until(t, "the commit of what is before it", func() bool { first = k.committed(t); return first > 0 || k.isFirst(t, "key 3") })
	before := time.Now()
	until(t, "two more commits", func() bool { return time.Since(before) > 2500*time.Millisecond })
	if at := k.committed(t); at > 5 {
		t.Errorf("offset %d is committed, and one of the first six records was not applied", at)
	}
	cancel()
	close(free)
	must(t, receive(t, "the end", ended))
	if at := k.committed(t); at < 6 {
		t.Errorf("the end has committed offset %d", at)
	}
	start(t, func(ctx context.Context) error {
		return kafkabroker.Consume(ctx, g.inbox(&events{}), g.apply, k.config())
	})
	g.waitFor(t, 6*6)
	g.check(t, 6*6, 6)
}

// isFirst reports whether the first record of the only partition has a key.
func (k *kafka) isFirst(t *testing.T, key string) bool {
	t.Helper()
	reader, err := kgo.NewClient(kgo.SeedBrokers(k.address), kgo.ConsumeTopics(topic))
	must(t, err)
	defer reader.Close()
	records := reader.PollRecords(t.Context(), 1).Records()
	return len(records) == 1 && string(records[0].Key) == key
}

// TestKafkaRebalance: a second consumer gets a partition only after the first one has ended what it has in hand, and
// has committed it: it gets none of these records.
func TestKafkaRebalance(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	k, g := newKafka(t, 4), newPgx(t)
	k.publish(t, batch(40, 1, 1))
	free, begun := make(chan struct{}), make(chan string, 100)
	start(t, func(ctx context.Context) error {
		return kafkabroker.Consume(ctx, g.inbox(&events{}), func(ctx context.Context, tx pgxTx, m message.Message) error {
			begun <- m.ID
			<-free
			return g.apply(ctx, tx, m)
		}, k.config())
	})
	receive(t, "a message", begun)
	second := &events{}
	start(t, func(ctx context.Context) error {
		return kafkabroker.Consume(ctx, g.inbox(second), g.apply, k.config())
	})
	// The second member is promised partitions, and the first one does not have them any more.
	until(t, "the rebalance", func() bool { _, n := k.members(t); return n > 0 && n < 4 })
	seen := time.Now()
	until(t, "what comes too early", func() bool { return time.Since(seen) > 3*time.Second })
	close(free)
	g.waitFor(t, 40)
	until(t, "the rebalance", func() bool { members, n := k.members(t); return members == 2 && n == 4 })
	k.publish(t, batch(40, 2, 3))
	g.waitFor(t, 120)
	k.waitDone(t)
	g.check(t, 120, 40)
	if n := second.count(inbox.EventDuplicate); n > 0 {
		t.Errorf("the second consumer gets %d records that the first one has in hand", n)
	}
	if second.count(inbox.EventApplied) == 0 {
		t.Error("the second consumer gets nothing")
	}
}

// TestKafkaConnectionsAreCut: connections to the broker die while messages are applied.
func TestKafkaConnectionsAreCut(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	k, g := newKafka(t, 4), newSQLite(t)
	proxy, err := faultnet.Listen(k.address)
	must(t, err)
	t.Cleanup(func() { _ = proxy.Close() })
	list := batch(20, 1, 30)
	k.publish(t, list)
	cfg := k.config()
	cfg.Batch = 4
	// A member whose request to join is cut comes again as another one, and the group waits for the first one.
	cfg.Client = append(kafkaOptions(k.address, 5*time.Second), kgo.Dialer(proxy.DialContext))
	handled := make(chan struct{}, 100000)
	start(t, func(ctx context.Context) error {
		return kafkabroker.Consume(ctx, g.inbox(&events{}), func(ctx context.Context, tx sqlTx, m message.Message) error {
			handled <- struct{}{}
			return g.apply(ctx, tx, m)
		}, cfg)
	})
	cuts := 0
	for range 8 {
		for range 20 {
			receive(t, "a message", handled)
		}
		cuts += proxy.CutAll()
	}
	g.waitFor(t, len(list))
	k.waitDone(t)
	g.check(t, len(list), 20)
	testenv.Reportf(t, "%d messages, %d connections cut", len(list), cuts)
}

// TestKafkaRefusals: what Consume says of a configuration that cannot work.
func TestKafkaRefusals(t *testing.T) {
	t.Parallel()
	k, g := newKafka(t, 1), newSQLite(t)
	for name, change := range map[string]func(*kafkabroker.ConsumerConfig){
		"nothing to read": func(c *kafkabroker.ConsumerConfig) { c.Topics = nil },
		"negative window": func(c *kafkabroker.ConsumerConfig) { c.Window = -1 },
		"negative batch":  func(c *kafkabroker.ConsumerConfig) { c.Batch = -1 },
		"no auto commit":  func(c *kafkabroker.ConsumerConfig) { c.Client = append(c.Client, kgo.DisableAutoCommit()) },
	} {
		cfg := k.config()
		change(&cfg)
		if err := kafkabroker.Consume(t.Context(), g.inbox(&events{}), g.apply, cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
