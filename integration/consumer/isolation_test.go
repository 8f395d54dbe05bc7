package consumer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/oncelib/once/broker/amqpbroker"
	"github.com/oncelib/once/broker/kafkabroker"
	"github.com/oncelib/once/broker/natsbroker"
	"github.com/oncelib/once/broker/redisbroker"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/message/cloudevent"
	"github.com/oncelib/once/retry"
)

// The tests of this file have messages in trouble beside healthy ones, which come last. All of the healthy ones are applied while each
// of the others is still in trouble.

// eventsOf returns messages of a key with the numbers from first to last.
func eventsOf(key string, first, last int64) (list []message.Message) {
	for seq := first; seq <= last; seq++ {
		list = append(list, message.Message{
			ID: fmt.Sprint(key, "/", seq), Source: "test", Topic: topic, Key: key, Seq: seq, Type: "refund.succeeded", CreatedAt: time.Unix(seq, 0),
		})
	}
	return list
}

// publishTo publishes to one partition.
func (k *kafka) publishTo(t *testing.T, partition int32, list []message.Message) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(k.address), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	must(t, err)
	defer client.Close()
	var records []*kgo.Record
	for _, m := range list {
		r := &kgo.Record{Topic: topic, Partition: partition, Key: []byte(m.Key), Value: m.Payload}
		for name, value := range cloudevent.Headers(&m, cloudevent.Kafka) {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
		}
		records = append(records, r)
	}
	must(t, client.ProduceSync(t.Context(), records...).FirstErr())
}

// patient returns an inbox that tries a message again for ever, with pauses in which others have their turn.
func (g *fixture[TX]) patient(observer inbox.Observer, order inbox.Order) *inbox.Inbox[TX] {
	return inbox.New(g.engine, inbox.Config{
		Consumer: "billing", Order: order, Observer: observer, HandlerTimeout: 300 * time.Millisecond,
		Policy: &retry.Policy{Attempts: math.MaxInt, Base: 200 * time.Millisecond, Cap: time.Second, Total: -1},
	})
}

// isSick reports whether a message is one in trouble.
func isSick(m *message.Message) bool { return strings.HasPrefix(m.Key, "sick") }

// distinct is the IDs of messages.
type distinct struct {
	mu  sync.Mutex
	ids map[string]bool
}

func (d *distinct) add(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ids == nil {
		d.ids = map[string]bool{}
	}
	d.ids[id] = true
}

func (d *distinct) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.ids)
}

// TestKafkaManyFail: 600 messages fail in two partitions, more than a consumer holds. Each is tried, and the other partitions go on. The
// offsets of these are committed, and those of the two are not. When they do not fail any more, all are applied.
func TestKafkaManyFail(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	t.Run("pgxstore", func(t *testing.T) { t.Parallel(); testKafkaManyFail(t, newPgx(t)) })
	t.Run("SQLite", func(t *testing.T) { t.Parallel(); testKafkaManyFail(t, newSQLite(t)) })
}

func testKafkaManyFail[TX any](t *testing.T, g *fixture[TX]) {
	const failing, healthy = 600, 400
	k := newKafka(t, 4)
	for i := range failing {
		k.publishTo(t, int32(i%2), eventsOf(fmt.Sprint("sick ", i), 1, 1))
	}
	var tried distinct
	var healed atomic.Bool
	start(t, func(ctx context.Context) error {
		return kafkabroker.Consume(ctx, g.patient(&events{}, inbox.InOrder), func(ctx context.Context, tx TX, m message.Message) error {
			if isSick(&m) && !healed.Load() {
				tried.add(m.ID)
				return errNow
			}
			return g.apply(ctx, tx, m)
		}, k.config())
	})
	until(t, "an attempt of each", func() bool { return tried.count() == failing })
	k.publishTo(t, 2, eventsOf("k", 1, healthy))
	k.publishTo(t, 3, eventsOf("l", 1, healthy))
	g.waitFor(t, 2*healthy)
	until(t, "the commit of the healthy partitions", func() bool { return k.committed(t) == 2*healthy })
	g.check(t, 2*healthy, 2)
	healed.Store(true)
	k.waitDone(t)
	g.check(t, 2*healthy+failing, 2+failing)
}

// TestKafkaGaps: two keys in two partitions wait for their first message, and more messages come behind it than a consumer holds. The
// other keys go on, in the same partitions as well. When the first messages come, all are applied in their order.
func TestKafkaGaps(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	t.Run("pgxstore", func(t *testing.T) { t.Parallel(); testKafkaGaps(t, newPgx(t)) })
	t.Run("SQLite", func(t *testing.T) { t.Parallel(); testKafkaGaps(t, newSQLite(t)) })
}

func testKafkaGaps[TX any](t *testing.T, g *fixture[TX]) {
	const early, healthy = 1200, 100
	k := newKafka(t, 3)
	for p, key := range []string{"sick a", "sick b"} {
		k.publishTo(t, int32(p), eventsOf(key, 2, early))
		k.publishTo(t, int32(p), eventsOf("beside "+key, 1, healthy))
	}
	k.publishTo(t, 2, eventsOf("k", 1, healthy))
	cfg := k.config()
	cfg.Prefetch = 64
	start(t, func(ctx context.Context) error {
		return kafkabroker.Consume(ctx, g.patient(&events{}, inbox.InOrder), g.apply, cfg)
	})
	g.waitFor(t, 3*healthy)
	k.waitDone(t)
	g.check(t, 3*healthy, 3)
	if n := g.count(t, "select count(*) from once_inbox_parked"); n != 2*(early-1) {
		t.Errorf("%d messages of %d are parked", n, 2*(early-1))
	}
	k.publishTo(t, 0, eventsOf("sick a", 1, 1))
	k.publishTo(t, 1, eventsOf("sick b", 1, 1))
	g.waitFor(t, 3*healthy+2*early)
	g.check(t, 3*healthy+2*early, 5)
}

// TestHandlerHangs: the handler of one message does not return, and more messages of its key come than a consumer holds. Its attempts fail, and
// it is not called again beside itself: so it takes one place, and the only writer of SQLite once. All of the other keys is applied. When the
// handler has returned, so is its message.
func TestHandlerHangs(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	for name, open := range brokers {
		t.Run("pgxstore, "+name, func(t *testing.T) { t.Parallel(); testHandlerHangs(t, newPgx(t), open(t)) })
		t.Run("SQLite, "+name, func(t *testing.T) {
			testenv.Sample(t, 2)
			t.Parallel()
			testHandlerHangs(t, newSQLite(t), open(t))
		})
	}
}

func testHandlerHangs[TX any](t *testing.T, g *fixture[TX], b broker) {
	const behind, healthy = 200, 300
	var tried atomic.Int64
	free := make(chan struct{})
	e := &events{}
	b.publish(t, eventsOf("sick", 1, behind))
	in := g.patient(e, inbox.InOrder)
	startOn(t, b, in, func(ctx context.Context, tx TX, m message.Message) error {
		if isSick(&m) && m.Seq == 1 && tried.Add(1) == 1 {
			<-free
			return errNow
		}
		return g.apply(ctx, tx, m)
	}, 4, 32)
	failed := func(n int) func() bool {
		return func() bool { return e.failedOf("sick", inbox.ErrHandlerTimeout) >= n }
	}
	until(t, "the end of its time", failed(1))
	b.publish(t, batch(3, 1, healthy/3))
	g.waitFor(t, healthy)
	until(t, "more attempts", failed(3))
	g.check(t, healthy, 3)
	if n := tried.Load(); n != 1 {
		t.Errorf("the handler is called %d times, and has not returned once", n)
	}
	if got := in.Backlog(); got.Hanging != 1 || got.HangingOldest.Key != "sick" {
		t.Errorf("%+v", got)
	}
	close(free)
	g.waitFor(t, healthy+behind)
	b.waitDone(t)
	g.check(t, healthy+behind, 4)
	if n := in.Hanging(); n != 0 {
		t.Errorf("%d handlers hang at the end", n)
	}
}

// TestHandlerReturnsLate: a handler returns when its time is over, each time. On SQLite, each of its attempts has the only writer. Between two
// attempts others go on.
func TestHandlerReturnsLate(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	t.Run("pgxstore", func(t *testing.T) { t.Parallel(); testHandlerReturnsLate(t, newPgx(t)) })
	t.Run("SQLite", func(t *testing.T) { t.Parallel(); testHandlerReturnsLate(t, newSQLite(t)) })
}

func testHandlerReturnsLate[TX any](t *testing.T, g *fixture[TX]) {
	const behind, healthy = 40, 120
	k := newKafka(t, 2)
	k.publish(t, eventsOf("sick", 1, behind))
	var tried atomic.Int64
	var healed atomic.Bool
	startOn(t, k, g.patient(&events{}, inbox.InOrder), func(ctx context.Context, tx TX, m message.Message) error {
		if isSick(&m) && !healed.Load() {
			tried.Add(1)
			<-ctx.Done()
			return ctx.Err()
		}
		return g.apply(ctx, tx, m)
	}, 4, 32)
	until(t, "an attempt", func() bool { return tried.Load() > 0 })
	k.publish(t, batch(3, 1, healthy/3))
	g.waitFor(t, healthy)
	if n := tried.Load(); n > healthy {
		t.Errorf("%d attempts of the handler that returns late, until %d others were applied", n, healthy)
	}
	n := tried.Load()
	until(t, "one more attempt", func() bool { return tried.Load() > n })
	healed.Store(true)
	g.waitFor(t, healthy+behind)
	k.waitDone(t)
	g.check(t, healthy+behind, 4)
}

// TestKafkaSlowKey: a handler takes long, and more messages of its key come behind it than a partition may have at work. Those of other keys
// behind these are applied before it returns.
func TestKafkaSlowKey(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	const behind, healthy = 200, 30
	k, g := newKafka(t, 1), newPgx(t)
	k.publish(t, eventsOf("slow", 1, behind))
	k.publish(t, batch(3, 1, healthy/3))
	free := make(chan struct{})
	startOn(t, k, g.inbox(&events{}), func(ctx context.Context, tx pgxTx, m message.Message) error {
		if m.Key == "slow" {
			<-free
		}
		return g.apply(ctx, tx, m)
	}, 4, 64)
	g.waitFor(t, healthy)
	g.check(t, healthy, 3)
	close(free)
	g.waitFor(t, healthy+behind)
	k.waitDone(t)
	g.check(t, healthy+behind, 4)
}

// TestHandlersHangAndEnd: handlers of more messages than there are places do not return, and others end their goroutine. The rest goes on.
func TestHandlersHangAndEnd(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	const bad, healthy = 6, 60
	k, g := newKafka(t, 2), newPgx(t)
	free := make(chan struct{})
	var tried distinct
	for i := range bad {
		k.publish(t, eventsOf(fmt.Sprint("sick, hangs ", i), 1, 1))
		k.publish(t, eventsOf(fmt.Sprint("sick, ends ", i), 1, 1))
	}
	startOn(t, k, g.patient(&events{}, inbox.AnyOrder), func(ctx context.Context, tx pgxTx, m message.Message) error {
		if isSick(&m) {
			tried.add(m.ID)
			if strings.Contains(m.Key, "ends") {
				runtime.Goexit()
			}
			<-free
			return errNow
		}
		return g.apply(ctx, tx, m)
	}, 4, 32)
	until(t, "an attempt of each", func() bool { return tried.count() == 2*bad })
	k.publish(t, batch(3, 1, healthy/3))
	g.waitFor(t, healthy)
	close(free)
}

// startOn runs a consumer of a broker.
func startOn[TX any](t *testing.T, b broker, in *inbox.Inbox[TX], fn inbox.Handler[TX], places, prefetch int) {
	t.Helper()
	start(t, func(ctx context.Context) error {
		if n, is := b.(*jetStream); is {
			cfg := natsConfig
			cfg.Concurrency, cfg.Prefetch = places, prefetch
			return natsbroker.Consume(ctx, n.js, in, fn, cfg)
		}
		if r, is := b.(*redisServer); is {
			cfg := redisConfig
			cfg.Concurrency, cfg.Prefetch, cfg.MinIdle = places, prefetch, time.Second
			return redisbroker.Consume(ctx, r.rdb, in, fn, cfg)
		}
		if r, is := b.(*rabbit); is {
			cfg := amqpConfig
			cfg.Concurrency, cfg.Prefetch = places, prefetch
			return amqpbroker.Consume(ctx, r.conn, in, fn, cfg)
		}
		k := b.(*kafka)
		cfg := k.config()
		cfg.Concurrency, cfg.Prefetch = places, prefetch
		return kafkabroker.Consume(ctx, in, fn, cfg)
	})
}

// failedOf counts the attempts of a key that have failed with an error.
func (e *events) failedOf(key string, err error) (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, event := range e.list {
		if event.Type == inbox.EventFailed && event.Message.Key == key && errors.Is(event.Err, err) {
			n++
		}
	}
	return n
}
