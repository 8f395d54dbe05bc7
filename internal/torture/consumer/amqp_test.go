package consumer

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/oncelib/once/broker/amqpbroker"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
)

// TestAMQP: duplicates, handlers that fail, and a message that cannot be decoded: each
// message is applied once, in the order of its key, and acknowledged. What cannot be decoded is a dead letter. While the handler runs, nothing
// is acknowledged.
func TestAMQP(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "rabbitmq")
	t.Run("quorum queue", func(t *testing.T) { testAMQP(t, true) })
	t.Run("classic queue", func(t *testing.T) { testAMQP(t, false) })
}

func testAMQP(t *testing.T, quorum bool) {
	t.Helper()
	t.Parallel()
	r, err := testenv.StartRabbitMQ(t.Context())
	must(t, err)
	t.Cleanup(func() { must(t, r.Close()) })
	conn, err := amqpbroker.Dial(r.URL(), amqp.Config{})
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	g := newSQLite(t)
	if quorum {
		must(t, amqpbroker.Declare(t.Context(), conn, amqpbroker.Queue{Name: topic}))
	} else {
		_, err = amqpChannel(t, r).QueueDeclare(topic, true, false, false, false, nil)
		must(t, err)
	}
	list := batch(5, 1, 40)
	p := amqpbroker.Publisher(conn, "")
	publish(t, p, list)
	publish(t, p, list[:50])
	raw := amqpChannel(t, r)
	must(t, raw.PublishWithContext(t.Context(), "", topic, true, false, amqp.Publishing{Body: []byte("this is no event")}))

	var failed sync.Map
	var handled atomic.Int64
	begun, free := make(chan struct{}), make(chan struct{})
	stop := start(t, func(ctx context.Context) error {
		return amqpbroker.Consume(ctx, conn, g.inbox(&events{}), func(ctx context.Context, tx sqlTx, m message.Message) error {
			if handled.Add(1) == 1 {
				close(begun)
				<-free
			}
			if _, before := failed.LoadOrStore(m.ID, true); !before && m.Seq%4 == 0 {
				return errNow
			}
			return g.apply(ctx, tx, m)
		}, amqpbroker.ConsumerConfig{Queue: topic, Batch: 4, Concurrency: 1, Log: quiet})
	})
	receive(t, "the first message", begun)
	close(free)
	g.waitFor(t, len(list))
	until(t, "the dead letter", func() bool {
		return g.count(t, "select count(*) from once_deadletter where class = 'malformed' and source = 'amqp' and event_id like 'refunds/%'") == 1
	})
	raw = amqpChannel(t, r)
	until(t, "the acknowledgements", func() bool {
		q, err := raw.QueueDeclarePassive(topic, true, false, false, false, nil)
		return err == nil && q.Messages == 0
	})
	stop()
	q, err := raw.QueueDeclarePassive(topic, true, false, false, false, nil)
	must(t, err)
	if q.Messages != 0 || q.Consumers != 0 {
		t.Errorf("the queue has %d messages and %d consumers", q.Messages, q.Consumers)
	}
	g.exec(t, "delete from once_deadletter where class = 'malformed'")
	g.check(t, len(list), 5)
	testenv.Reportf(t, "%d messages, %d calls of the handler", len(list), handled.Load())
}

func amqpChannel(t *testing.T, r *testenv.RabbitMQ) *amqp.Channel {
	t.Helper()
	conn, err := amqp.Dial(r.URL())
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	must(t, err)
	return ch
}
