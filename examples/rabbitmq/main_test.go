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
)

// TestBookedOnce: events come twice, and one cannot be booked. Each of the others is booked once, and the program ends without an error.
func TestBookedOnce(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "rabbitmq")
	server, err := testenv.StartRabbitMQ(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	dsn := "file:" + filepath.Join(t.TempDir(), "billing.db")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, server.URL(), dsn) }()

	conn, err := amqpbroker.Dial(server.URL(), amqp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	var events []message.Message
	for i, payload := range []string{`{"account":"acct_1","amount":1000}`, `{"account":"acct_1","amount":2000}`, "no refund"} {
		m := message.Message{ID: fmt.Sprint("e", i), Source: "payments", Topic: "refunds", Type: "refund.succeeded", Payload: []byte(payload)}
		if i < 2 {
			m.Key, m.Seq = "acct_1", int64(i+1)
		}
		events = append(events, m, m)
	}
	publisher := amqpbroker.Publisher(conn, "")
	for _, m := range events { // what no queue takes is not delivered: the program declares it
		for errors.Join(publisher.Publish(ctx, []message.Message{m})...) != nil {
			if ctx.Err() != nil {
				t.Fatal("the message is not delivered: ", m.ID)
			}
			<-time.After(10 * time.Millisecond)
		}
	}

	for end := time.Now().Add(2 * time.Minute); ; <-time.After(10 * time.Millisecond) {
		n, err := server.Messages(ctx, "refunds")
		if err == nil && n == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the queue has %d messages: %v", n, err)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var bookings, sum, dead int
	err = db.QueryRowContext(t.Context(), "select count(*), sum(amount), (select count(*) from once_deadletter where class = 'permanent') from booking").Scan(&bookings, &sum, &dead)
	if err != nil || bookings != 2 || sum != 3000 || dead != 1 {
		t.Errorf("%d bookings of %d, %d dead letters: %v", bookings, sum, dead, err)
	}
}
