package main

import (
	"context"
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

func TestMain(m *testing.M) { testenv.Main(m) }

// TestBookedOnce: events come twice, and one cannot be booked. Each of the others is booked once, and the program ends without an error.
func TestBookedOnce(t *testing.T) {
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
	go func() { ended <- run(ctx, dsn, server.URL()) }()

	conn, err := amqpbroker.Dial(server.URL(), amqp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	publisher := amqpbroker.Publisher(conn, "")
	for i, payload := range []string{`{"account":"acct_1","amount":1000}`, `{"account":"acct_1","amount":2000}`, "no refund"} {
		m := message.Message{ID: fmt.Sprint("e", i), Source: "payments", Topic: "refunds", Type: "refund.succeeded", Payload: []byte(payload)}
		if i < 2 {
			m.Key, m.Seq = "acct_1", int64(i+1)
		}
		for range 2 {
			// What no queue takes is not delivered: the program declares it.
			for errors.Join(publisher.Publish(ctx, []message.Message{m})...) != nil {
				<-time.After(10 * time.Millisecond)
			}
		}
	}
	for {
		if n, err := server.Messages(ctx, "refunds"); err == nil && n == 0 {
			break
		}
		<-time.After(10 * time.Millisecond)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	db, _, err := open(t.Context(), dsn)
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
