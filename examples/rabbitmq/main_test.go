package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/oncelib/once/broker/amqpbroker"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
)

// TestBookedOnce: events come twice, one cannot be booked, and the server is killed. The program ends then, and is started again. Each of the
// other events is booked once, in their order.
func TestBookedOnce(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "rabbitmq")
	server, err := testenv.StartRabbitMQ(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	conn, err := amqpbroker.Dial(server.URL(), amqp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	publisher := amqpbroker.Publisher(conn, "")
	dsn := "file:" + filepath.Join(t.TempDir(), "billing.db")

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := start(ctx, server.URL(), dsn)
	publishTwice(t, publisher, event(1), event(2), message.Message{ID: "bad", Source: "payments", Topic: "refunds", Type: "refund.succeeded", Payload: []byte("no refund")})
	waitEmpty(t, server)
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("the program has not noticed that the server was killed")
	}
	publishTwice(t, publisher, event(2), event(3))
	ended = start(ctx, server.URL(), dsn)
	waitEmpty(t, server)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}

	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var booked string
	var dead int
	err = db.QueryRowContext(t.Context(), "select group_concat(amount), (select count(*) from once_deadletter where class = 'permanent') from (select amount from booking order by rowid)").Scan(&booked, &dead)
	if err != nil || booked != "1000,2000,3000" || dead != 1 {
		t.Errorf("booked: %s, %d dead letters: %v", booked, dead, err)
	}
}

func event(seq int64) message.Message {
	return message.Message{
		ID: fmt.Sprint("e", seq), Source: "payments", Topic: "refunds", Key: "acct_1", Seq: seq, Type: "refund.succeeded",
		Payload: fmt.Appendf(nil, `{"account":"acct_1","amount":%d}`, 1000*seq),
	}
}

func start(ctx context.Context, url, dsn string) (ended chan error) {
	ended = make(chan error, 1)
	go func() { ended <- run(ctx, url, dsn) }()
	return ended
}

// publishTwice publishes until the messages are delivered. What no queue takes is not: the program declares it.
func publishTwice(t *testing.T, to outbox.Publisher, messages ...message.Message) {
	t.Helper()
	for _, m := range append(messages, messages...) {
		for errors.Join(to.Publish(t.Context(), []message.Message{m})...) != nil {
			if t.Context().Err() != nil {
				t.Fatal("the message is not delivered: ", m.ID)
			}
			<-time.After(10 * time.Millisecond)
		}
	}
}

// waitEmpty waits until all messages are acknowledged.
func waitEmpty(t *testing.T, server *testenv.RabbitMQ) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; <-time.After(10 * time.Millisecond) {
		n, err := server.Messages(t.Context(), "refunds")
		if err == nil && n == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the queue has %d messages: %v", n, err)
		}
	}
}
