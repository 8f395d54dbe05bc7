package broker

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/oncelib/once/broker/amqpbroker"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/outbox/outboxtest"
	"github.com/oncelib/once/retry"
)

// realRabbitMQ starts a RabbitMQ as a process. A loaded machine needs long for that.
func realRabbitMQ(t *testing.T) (*testenv.RabbitMQ, *amqpbroker.Conn) {
	t.Helper()
	testenv.Need(t, "rabbitmq")
	r, err := testenv.StartRabbitMQ(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r, dialAMQP(t, r.URL())
}

func dialAMQP(t *testing.T, url string) *amqpbroker.Conn {
	t.Helper()
	conn, err := amqpbroker.Dial(url, amqp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// endOfQueue is the type of a message that no publisher of an outbox has sent.
const endOfQueue = "end of the queue"

// queues makes queues, and a function that takes out of them what has come since the last call.
func queues(t *testing.T, r *testenv.RabbitMQ, conn *amqpbroker.Conn, list ...amqpbroker.Queue) func(*testing.T) []message.Message {
	t.Helper()
	for _, q := range list {
		if err := amqpbroker.Declare(t.Context(), conn, q); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.SyncQueues(t.Context()); err != nil {
		t.Fatal(err)
	}
	return func(t *testing.T) (arrived []message.Message) {
		t.Helper()
		ch := rawChannel(t, r)
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(ch.Confirm(false))
		for _, q := range list {
			// A message behind all others says that they have come: to ask for one after the other takes a write on the disk for each.
			last, err := ch.PublishWithDeferredConfirm("", q.Name, true, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Type: endOfQueue})
			must(err)
			if !last.Wait() {
				t.Fatalf("queue %s takes no message", q.Name)
			}
			deliveries, err := ch.Consume(q.Name, q.Name, false, false, false, false, nil)
			must(err)
			for d := range deliveries {
				must(d.Ack(false)) // a quorum queue delivers 2,000 messages that are not acknowledged
				if d.Type == endOfQueue {
					break
				}
				if d.DeliveryMode != amqp.Persistent {
					t.Errorf("message %s is not persistent", d.MessageId)
				}
				m, err := parseAMQP(d)
				must(err)
				arrived = append(arrived, m)
			}
			must(ch.Cancel(q.Name, false))
		}
		return arrived
	}
}

func rawChannel(t *testing.T, r *testenv.RabbitMQ) *amqp.Channel {
	t.Helper()
	conn, err := amqp.Dial(r.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

func parseAMQP(d amqp.Delivery) (message.Message, error) {
	return outboxtest.Message(d.RoutingKey, "cloudevents_", false, func(yield func(name, value string) bool) {
		if d.ContentType != "" && !yield("content-type", d.ContentType) {
			return
		}
		for name, value := range d.Headers {
			if !yield(name, fmt.Sprint(value)) {
				return
			}
		}
	}, d.Body)
}

// TestPublisherOnRabbitMQ: the contract of a publisher, with a server that is killed and started again.
func TestPublisherOnRabbitMQ(t *testing.T) {
	r, conn := realRabbitMQ(t)
	received := queues(t, r, conn, amqpbroker.Queue{Name: "refunds"}, amqpbroker.Queue{Name: "payouts", Classic: true})
	outboxtest.Run(t, outboxtest.Destination{
		Publisher: amqpbroker.Publisher(conn, ""), Topics: []string{"refunds", "payouts"}, Received: received,
		Reject: func(m *message.Message) { m.Headers = map[string]string{strings.Repeat("x", 256): "too long a name"} },
		Break: func(t *testing.T) func() {
			t.Helper()
			if err := r.Kill(); err != nil {
				t.Fatal(err)
			}
			return func() {
				if err := r.Restart(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		},
	})
}

// TestAMQPUnroutable: what no queue takes is returned by the server, which confirms it as well. It is not delivered: the error says what to
// do, and the message is delivered when a queue is there. A queue that is full refuses a message, and so it is not delivered.
func TestAMQPUnroutable(t *testing.T) {
	r, conn := realRabbitMQ(t)
	received := queues(t, r, conn, amqpbroker.Queue{Name: "refunds"})
	p := amqpbroker.Publisher(conn, "")
	all := make([]message.Message, 300)
	for i := range all {
		all[i] = message.Message{ID: "one", Topic: "refunds", Payload: fmt.Append(nil, i)} // one ID: the number of a message tells which was returned
		if i%2 == 1 {
			all[i].Topic = "nowhere"
		}
	}
	delivered := 0
	for _, m := range all { // one by one: an Unavailable stops the others
		errs := p.Publish(t.Context(), []message.Message{m})
		switch {
		case m.Topic == "refunds" && errs == nil:
			delivered++
		case m.Topic == "refunds":
			t.Fatal(errs)
		case errs == nil || !outbox.IsUnavailable(errs[0]) || !strings.Contains(errs[0].Error(), "no queue receives messages of the queue nowhere") || !strings.Contains(errs[0].Error(), "Try: declare a durable queue"):
			t.Fatalf("unroutable: %v", errs)
		}
	}
	var calls sync.WaitGroup
	for _, m := range all[:100] { // many at once over one channel
		calls.Go(func() {
			if errs := p.Publish(t.Context(), []message.Message{m}); (errs == nil) != (m.Topic == "refunds") {
				t.Errorf("%s: %v", m.Topic, errs)
			}
		})
	}
	calls.Wait()
	if n := len(received(t)); n != delivered+50 {
		t.Errorf("%d messages have arrived, %d are confirmed", n, delivered+50)
	}
	got := queues(t, r, conn, amqpbroker.Queue{Name: "nowhere"})
	if errs := p.Publish(t.Context(), all[1:2]); errs != nil || len(got(t)) != 1 {
		t.Errorf("with a queue: %v", errs)
	}

	ch := rawChannel(t, r)
	if _, err := ch.QueueDeclare("full", true, false, false, false, amqp.Table{"x-max-length": 1, "x-overflow": "reject-publish"}); err != nil {
		t.Fatal(err)
	}
	full := message.Message{ID: "1", Topic: "full"}
	if errs := p.Publish(t.Context(), []message.Message{full}); errs != nil {
		t.Fatal(errs)
	}
	if errs := p.Publish(t.Context(), []message.Message{full}); errs == nil || !outbox.IsUnavailable(errs[0]) || !strings.Contains(errs[0].Error(), "has refused a message for") {
		t.Errorf("a full queue: %v", errs)
	}
	topicOnly := amqpbroker.Publisher(conn, "nowhere")
	if errs := topicOnly.Publish(t.Context(), all[:1]); errs == nil || !outbox.IsUnavailable(errs[0]) || !strings.Contains(errs[0].Error(), "Try: declare the exchange") {
		t.Errorf("no exchange: %v", errs)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(amqpbroker.Declare(t.Context(), conn, amqpbroker.Queue{Name: "billing", Exchange: "events", Topics: []string{"refunds.*"}}))
	events := amqpbroker.Publisher(conn, "events")
	if errs := events.Publish(t.Context(), []message.Message{{ID: "1", Topic: "refunds.eu"}}); errs != nil {
		t.Error(errs)
	}
	if errs := events.Publish(t.Context(), []message.Message{{ID: "1", Topic: "payouts.eu"}}); errs == nil || !strings.Contains(errs[0].Error(), "Try: bind a durable queue") {
		t.Errorf("no binding: %v", errs)
	}
	if errs := p.Publish(t.Context(), []message.Message{{ID: "1", Topic: strings.Repeat("x", 256)}}); errs == nil || !retry.IsPermanent(errs[0]) {
		t.Errorf("a long topic: %v", errs)
	}
	must(conn.Close())
	if errs := p.Publish(t.Context(), all[:1]); errs == nil || !strings.Contains(errs[0].Error(), "was closed. Try: ") {
		t.Errorf("a closed connection: %v", errs)
	}
	// What was started for connections has ended.
	for end := time.Now().Add(time.Minute); ; {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		if !strings.Contains(string(stacks), "amqpbroker.") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("a goroutine is left:\n%s", stacks)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// TestAMQPSilentQueue: a queue that sends no confirmations, as one without a leader, holds no message of another queue. Its messages are not delivered, the
// error names the queue, and they are delivered when it confirms again.
func TestAMQPSilentQueue(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	r, _ := realRabbitMQ(t)
	conn, err := amqpbroker.Dial(r.URL(), amqp.Config{Heartbeat: 2 * time.Second}) // shorter, and a pause of this process would end the connection
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	received := queues(t, r, conn, amqpbroker.Queue{Name: "refunds"}, amqpbroker.Queue{Name: "payouts", Classic: true})
	tell := func(what string) {
		t.Helper()
		if _, err := r.Control(t.Context(), "eval", `{ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<"payouts">>)), sys:`+what+`(amqqueue:get_pid(Q)).`); err != nil {
			t.Fatal(err)
		}
	}
	p := amqpbroker.Publisher(conn, "")
	tell("suspend")
	silent := make(chan []error, 1)
	go func() {
		silent <- p.Publish(t.Context(), []message.Message{{ID: "1", Topic: "payouts"}, {ID: "2", Topic: "payouts"}})
	}()
	healthy := 0
	for errs := []error(nil); errs == nil; {
		select {
		case errs = <-silent:
			for _, err := range errs {
				if !outbox.IsUnavailable(err) || !strings.Contains(err.Error(), "the server has not confirmed a message for the queue payouts: the server has sent nothing for 12s. Try: rabbitmq-queues quorum_status") {
					t.Errorf("silence: %v", err)
				}
			}
		default:
			healthy++
			if errs := p.Publish(t.Context(), []message.Message{{ID: fmt.Sprint(healthy), Topic: "refunds"}}); errs != nil {
				t.Fatalf("after %d messages of a healthy queue: %v", healthy, errs)
			}
		}
	}
	tell("resume")
	if errs := p.Publish(t.Context(), []message.Message{{ID: "3", Topic: "payouts"}}); errs != nil {
		t.Errorf("the queue confirms again: %v", errs)
	}
	arrived := map[string]int{}
	for _, m := range received(t) {
		arrived[m.Topic]++
	}
	if arrived["refunds"] != healthy || arrived["payouts"] < 1 {
		t.Errorf("%d messages of the healthy queue are confirmed, and %v have arrived", healthy, arrived)
	}
}

// TestAMQPIsKilledWhilePublishing: each message is published until it is confirmed, while the server is killed again and again. All arrive,
// those of a key in order behind a consumer that drops what it has seen.
func TestAMQPIsKilledWhilePublishing(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	t.Run("quorum queue", func(t *testing.T) { t.Parallel(); testAMQPIsKilled(t, false) })
	t.Run("classic queue", func(t *testing.T) { t.Parallel(); testAMQPIsKilled(t, true) })
}

func testAMQPIsKilled(t *testing.T, classic bool) {
	t.Helper()
	r, conn := realRabbitMQ(t)
	received := queues(t, r, conn, amqpbroker.Queue{Name: "refunds", Classic: classic})
	p := amqpbroker.Publisher(conn, "")
	const keys, each, kills = 40, 250, 2
	confirmed := make(chan struct{}, keys*each)
	killed := make(chan error, 1)
	go func() {
		defer close(killed)
		for range kills {
			for range keys * each / (kills + 1) {
				<-confirmed
			}
			if err := r.Restart(context.Background()); err != nil {
				killed <- err
				return
			}
		}
	}()
	var waiting []message.Message
	for i := range keys * each {
		waiting = append(waiting, message.Message{
			Topic: "refunds", Key: fmt.Sprint("key ", i%keys), Seq: int64(i/keys) + 1, ID: fmt.Sprint("id", i), Type: "test", Source: "test",
		})
	}
	calls := 0
	for len(waiting) > 0 {
		calls++
		batch := waiting[:min(len(waiting), 1000)]
		errs := p.Publish(t.Context(), batch)
		var failed []message.Message
		for i, m := range batch {
			switch {
			case errs == nil || errs[i] == nil:
				confirmed <- struct{}{}
			case !outbox.IsUnavailable(errs[i]):
				t.Fatalf("message %s: %v", m.ID, errs[i])
			default:
				failed = append(failed, m)
			}
		}
		if failed != nil {
			<-time.After(50 * time.Millisecond)
		}
		waiting = append(failed, waiting[len(batch):]...)
	}
	if err := <-killed; err != nil {
		t.Fatal(err)
	}
	last := map[string]int64{}
	deliveries, duplicates := 0, 0
	for _, m := range received(t) {
		deliveries++
		switch {
		case m.Seq <= last[m.Key]:
			duplicates++
		case m.Seq != last[m.Key]+1:
			t.Errorf("%s: number %d after %d", m.Key, m.Seq, last[m.Key])
			fallthrough
		default:
			last[m.Key] = m.Seq
		}
	}
	for key, seq := range last {
		if seq != each {
			t.Errorf("%s ends with %d", key, seq)
		}
	}
	if len(last) != keys {
		t.Errorf("%d keys have arrived", len(last))
	}
	testenv.Reportf(t, "%d messages, %d kills of RabbitMQ: %d calls of Publish, %d deliveries, %d duplicates", keys*each, kills, calls, deliveries, duplicates)
}

// TestAMQPCheck: a queue that Declare has made has no dangerous settings, and each dangerous one is found.
func TestAMQPCheck(t *testing.T) {
	r, conn := realRabbitMQ(t)
	ch := rawChannel(t, r)
	quorum := func(more amqp.Table) amqp.Table {
		more["x-queue-type"] = "quorum"
		return more
	}
	for name, c := range map[string]struct {
		durable, autoDelete, exclusive bool
		arguments                      amqp.Table
		want                           []string
	}{
		"classic":   {true, false, false, nil, []string{"is stored on one server only"}},
		"transient": {false, false, false, nil, []string{"is not durable", "is stored on one server only"}},
		"leaves":    {true, true, false, nil, []string{"when its last consumer disconnects", "is stored on one server only"}},
		"mine":      {true, false, true, nil, []string{"belongs to one connection"}},
		"short":     {true, false, false, quorum(amqp.Table{"x-message-ttl": 60000}), []string{"deletes messages after 60000 ms"}},
		"unused":    {true, false, false, quorum(amqp.Table{"x-expires": 60000}), []string{"not used for 60000 ms"}},
		"drops":     {true, false, false, quorum(amqp.Table{"x-max-length": 10}), []string{"deletes old messages when the "}},
		"refuses":   {true, false, false, quorum(amqp.Table{"x-max-length": 10, "x-overflow": "reject-publish"}), nil},
		"limited":   {true, false, false, quorum(amqp.Table{"x-delivery-limit": 5}), []string{"deletes a message after 5 deliveries"}},
		"letters":   {true, false, false, quorum(amqp.Table{"x-delivery-limit": 5, "x-dead-letter-exchange": "dead"}), nil},
	} {
		if _, err := ch.QueueDeclare(name, c.durable, c.autoDelete, c.exclusive, false, c.arguments); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		wantFindings(t, name, c.want)(amqpbroker.Check(t.Context(), conn, name))
	}
	if err := amqpbroker.Declare(t.Context(), conn, amqpbroker.Queue{Name: "good", Exchange: "events"}); err != nil {
		t.Fatal(err)
	}
	if err := amqpbroker.Declare(t.Context(), conn, amqpbroker.Queue{Name: "classic"}); err == nil || !strings.Contains(err.Error(), "Try: ") {
		t.Errorf("a queue that is another one: %v", err)
	}
	wantFindings(t, "good", nil)(amqpbroker.Check(t.Context(), conn, "good"))
	wantFindings(t, "nowhere", []string{"Queue nowhere does not exist"})(amqpbroker.Check(t.Context(), conn, "nowhere"))
	for name, durable := range map[string]bool{"lasts": true, "ends": false} {
		if err := ch.ExchangeDeclare(name, "fanout", durable, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
	}
	wantFindings(t, "events", nil)(amqpbroker.CheckExchange(t.Context(), conn, "events"))
	wantFindings(t, "lasts", nil)(amqpbroker.CheckExchange(t.Context(), conn, "lasts"))
	wantFindings(t, "ends", []string{"Exchange ends is not durable"})(amqpbroker.CheckExchange(t.Context(), conn, "ends"))
	wantFindings(t, "no exchange", []string{"Exchange nowhere does not exist"})(amqpbroker.CheckExchange(t.Context(), conn, "nowhere"))
}

func wantFindings(t *testing.T, name string, want []string) func([]string, error) {
	return func(findings []string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, finding := range findings {
			at := slices.IndexFunc(want, func(w string) bool { return strings.Contains(finding, w) })
			if at < 0 || !strings.Contains(finding, "Try: ") {
				t.Errorf("%s: %s", name, finding)
				continue
			}
			want = slices.Delete(slices.Clone(want), at, at+1)
		}
		if len(want) > 0 {
			t.Errorf("%s: not found: %q", name, want)
		}
	}
}
