package main

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/oncelib/once/broker/natsbroker"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// TestRefundIsBooked: the program makes the stream that it needs, and books a refund.
func TestRefundIsBooked(t *testing.T) {
	testenv.Need(t, "nats-server")
	server, err := testenv.StartNATS(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	nc, err := nats.Connect(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	dsn := "file:" + filepath.Join(t.TempDir(), "billing.db")
	go func() { ended <- run(ctx, dsn, server.URL()) }()
	refund := message.Message{ID: "e1", Source: "payments", Topic: "refunds", Key: "acct_1", Seq: 1, Type: "refund.succeeded", Payload: []byte(`{"account":"acct_1","amount":1000}`)}
	for natsbroker.Publisher(js).Publish(t.Context(), []message.Message{refund}) != nil { // until there is a stream
		<-time.After(10 * time.Millisecond)
	}
	for {
		consumer, err := js.Consumer(t.Context(), "REFUNDS", "billing")
		if err == nil && consumer.CachedInfo().NumPending == 0 && consumer.CachedInfo().NumAckPending == 0 {
			break
		}
		<-time.After(10 * time.Millisecond)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	db, _, err := open(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var count, sum int
	if err := db.QueryRowContext(t.Context(), "select count(*), sum(amount) from booking").Scan(&count, &sum); err != nil || count != 1 || sum != 1000 {
		t.Errorf("%d bookings, %d in all, %v", count, sum, err)
	}
}
