package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/oncelib/once/broker/amqpbroker"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/retry"
)

// rabbit is a RabbitMQ that can be killed, with one queue.
type rabbit struct {
	*testenv.RabbitMQ

	conn *amqpbroker.Conn
}

// Kinds of queues.
const (
	quorumQueue  = "quorum"
	classicQueue = "classic"
)

func newRabbit(t *testing.T, kind string) *rabbit {
	t.Helper()
	testenv.Need(t, "rabbitmq")
	server, err := testenv.StartRabbitMQ(t.Context())
	must(t, err)
	t.Cleanup(func() { must(t, server.Close()) })
	r := &rabbit{RabbitMQ: server, conn: dialAMQP(t, server.URL())}
	if kind == quorumQueue {
		must(t, amqpbroker.Declare(t.Context(), r.conn, amqpbroker.Queue{Name: topic}))
	} else {
		must(t, amqpbroker.Declare(t.Context(), r.conn, amqpbroker.Queue{Name: topic, Classic: true}))
	}
	must(t, r.SyncQueues(t.Context()))
	return r
}

func dialAMQP(t *testing.T, url string) *amqpbroker.Conn {
	t.Helper()
	conn, err := amqpbroker.Dial(url, amqp.Config{})
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// channel returns a channel of the client itself.
func (r *rabbit) channel(t *testing.T) *amqp.Channel {
	t.Helper()
	conn, err := amqp.Dial(r.URL())
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	must(t, err)
	return ch
}

// into implements broker.
func (r *rabbit) into(p *plan) { p.AMQP = r.URL() }

// points implements broker.
func (r *rabbit) points() []int64 { return []int64{1, 2, 5, 8, 9, 12, 13, 14} }

// publish implements broker.
func (r *rabbit) publish(t *testing.T, list []message.Message) {
	t.Helper()
	publish(t, amqpbroker.Publisher(r.conn, ""), list)
}

// repeat implements broker. A queue does not know messages again.
func (r *rabbit) repeat(t *testing.T, list []message.Message) {
	t.Helper()
	r.publish(t, list)
}

// disturb implements broker: the server is killed.
func (r *rabbit) disturb() error { return errors.Join(r.Kill(), r.Restart(context.Background())) }

// waitDone waits until all messages are acknowledged.
func (r *rabbit) waitDone(t *testing.T) {
	t.Helper()
	until(t, "the acknowledgements", func() bool {
		n, err := r.Messages(t.Context(), topic)
		return err == nil && n == 0
	})
}

var amqpConfig = amqpbroker.ConsumerConfig{Queue: topic, Log: quiet}

// TestRabbitMQMessagesAreAppliedOnce: duplicates, handlers that fail, a message that cannot be decoded, and a server that is killed while a handler runs: each message is
// applied once, in the order of its key, and acknowledged after that. What cannot be decoded is a dead letter.
func TestRabbitMQMessagesAreAppliedOnce(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	t.Run("quorum queue", func(t *testing.T) { testenv.Cell(t, testenv.InTest); t.Parallel(); testAMQP(t, quorumQueue) })
	t.Run("classic queue", func(t *testing.T) { testenv.Cell(t, testenv.InProve); t.Parallel(); testAMQP(t, classicQueue) })
}

func testAMQP(t *testing.T, kind string) {
	t.Helper()
	r, g := newRabbit(t, kind), newSQLite(t)
	list := batch(5, 1, 40)
	r.publish(t, list)
	r.publish(t, list[:50])
	raw := r.channel(t)
	must(t, raw.Confirm(false))
	sent, err := raw.PublishWithDeferredConfirm("", topic, true, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte("this is no event")})
	must(t, err)
	if !sent.Wait() {
		t.Fatal("the server has not taken the message")
	}
	e := &events{}
	var tried sync.Map
	var handled atomic.Int64
	begun, free := make(chan struct{}), make(chan struct{})
	stop := start(t, func(ctx context.Context) error {
		cfg := amqpConfig
		cfg.Batch, cfg.Concurrency = 4, 1
		return amqpbroker.Consume(ctx, r.conn, g.inbox(e), func(ctx context.Context, tx sqlTx, m message.Message) error {
			if handled.Add(1) == 1 {
				close(begun)
				<-free
			}
			n, _ := tried.LoadOrStore(m.ID, new(atomic.Int64))
			if n.(*atomic.Int64).Add(1) <= 2 && m.Seq%4 == 0 { // also when the batch is tried again
				return errNow
			}
			return g.apply(ctx, tx, m)
		}, cfg)
	})
	receive(t, "the first message", begun)
	if n, err := r.Messages(t.Context(), topic); err != nil || n != len(list)+50+1 {
		t.Errorf("the queue has %d messages, and none is applied: %v", n, err)
	}
	must(t, r.disturb())
	close(free)
	g.waitFor(t, len(list))
	until(t, "the dead letter", func() bool {
		return g.count(t, "select count(*) from once_deadletter where class = 'malformed' and source = 'amqp' and event_id like 'refunds/%'") == 1
	})
	r.waitDone(t)
	stop()
	g.exec(t, "delete from once_deadletter where class = 'malformed'")
	g.check(t, len(list), 5)
	if e.count(inbox.EventDuplicate) == 0 || e.count(inbox.EventFailed) == 0 {
		t.Error("the run has not met what it is for")
	}
	testenv.Reportf(t, "%d messages, %d calls of the handler", len(list), handled.Load())
}

// TestAMQPServerIsKilled: the server dies while messages are applied, and so do connections to it.
func TestAMQPServerIsKilled(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	t.Run("quorum queue", func(t *testing.T) { t.Parallel(); testAMQPServerIsKilled(t, quorumQueue) })
	t.Run("classic queue", func(t *testing.T) { t.Parallel(); testAMQPServerIsKilled(t, classicQueue) })
}

func testAMQPServerIsKilled(t *testing.T, kind string) {
	t.Helper()
	r, g := newRabbit(t, kind), newPgx(t)
	proxy, err := faultnet.Listen(r.Addr())
	must(t, err)
	t.Cleanup(func() { _ = proxy.Close() })
	list := batch(10, 1, 100)
	r.publish(t, list)
	conn := dialAMQP(t, strings.Replace(r.URL(), r.Addr(), proxy.Addr(), 1))
	cfg := amqpConfig
	cfg.Batch, cfg.Prefetch = 8, 20 // what a process has goes on without the server
	var log lines
	cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	var handled atomic.Int64
	resumed := make(chan struct{}, len(list)*100)
	start(t, func(ctx context.Context) error {
		return amqpbroker.Consume(ctx, conn, g.inbox(&events{}), func(ctx context.Context, tx pgxTx, m message.Message) error {
			if handled.Add(1)%20 == 0 {
				resumed <- struct{}{}
			}
			return g.apply(ctx, tx, m)
		}, cfg)
	})
	kills, cuts := 0, 0
	for range 2 {
		receive(t, "messages", resumed)
		kills++
		must(t, r.disturb())
		receive(t, "messages", resumed)
		cuts += proxy.CutAll()
	}
	g.waitFor(t, len(list))
	r.waitDone(t)
	g.check(t, len(list), 10)
	log.untilOver(t, "the consumer gets no messages")
	testenv.Reportf(t, "%d messages, RabbitMQ killed %d times, %d connections cut, %d calls of the handler", len(list), kills, cuts, handled.Load())
}

// TestAMQPPoison: more messages fail for good than a consumer may have. Each is a dead letter, and all others are applied.
func TestAMQPPoison(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	const healthy, poison = 300, 100
	r, g := newRabbit(t, quorumQueue), newSQLite(t)
	list := batch(3, 1, healthy/3)
	for i := range poison {
		r.publish(t, append(eventsOf(fmt.Sprint("sick ", i), 1, 1), list[3*i:3*i+3]...))
	}
	in := inbox.New(g.engine, inbox.Config{
		Consumer: "billing", Order: inbox.InOrder, Observer: &events{}, Policy: &retry.Policy{Attempts: 3, Base: 10 * time.Millisecond, Cap: 100 * time.Millisecond},
	})
	startOn(t, r, in, func(ctx context.Context, tx sqlTx, m message.Message) error {
		if isSick(&m) {
			return errNow
		}
		return g.apply(ctx, tx, m)
	}, 4, 16)
	g.waitFor(t, healthy)
	r.waitDone(t)
	if n := g.count(t, "select count(*) from once_deadletter where event_id like 'sick%'"); n != poison {
		t.Errorf("%d dead letters of %d", n, poison)
	}
	g.exec(t, "delete from once_deadletter")
	g.check(t, healthy, 3)
}

// TestAMQPBacklog: a queue has many messages when its consumers begin. Each is applied once and in order, and no consumer has more of them than
// it may. With ONCE_TORTURE=long there are 100,000.
func TestAMQPBacklog(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	n := 5000
	if os.Getenv("ONCE_TORTURE") == "long" {
		n = 100_000
	}
	const keys, prefetch = 50, 100
	r, g := newRabbit(t, quorumQueue), newPgx(t)
	began := time.Now()
	r.publish(t, batch(keys, 1, int64(n/keys)))
	published := time.Since(began)
	if waiting, err := r.Messages(t.Context(), topic); err != nil || waiting != n {
		t.Fatalf("the queue has %d messages of %d: %v", waiting, n, err)
	}
	began = time.Now()
	in := g.inbox(&events{})
	for range 2 {
		startOn(t, r, in, g.apply, 4, prefetch)
	}
	until(t, "the first messages", func() bool { return g.count(t, "select count(*) from applied") > 0 })
	text, err := r.Control(t.Context(), "list_channels", "--no-table-headers", "prefetch_count", "messages_unacknowledged")
	must(t, err)
	for line := range strings.Lines(text) {
		var bound, has int
		if _, err := fmt.Sscan(line, &bound, &has); err == nil && bound > 0 && (bound != 2*prefetch || has > bound) {
			t.Errorf("a consumer has %d messages, and may have %d", has, bound)
		}
	}
	g.waitFor(t, n)
	applied := time.Since(began)
	r.waitDone(t)
	g.check(t, n, keys)
	testenv.Reportf(t, "%d messages: %.0f published and %.0f applied per second", n, float64(n)/published.Seconds(), float64(n)/applied.Seconds())
}
