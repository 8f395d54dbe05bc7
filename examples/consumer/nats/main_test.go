package main

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/oncelib/once/broker/natsbroker"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store/sqlstore"
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
	refund := message.Message{Topic: "refunds", Key: "acct_1", Type: "refund.succeeded", Payload: []byte(`{"account":"acct_1","amount":1000}`)}
	pay(t, js, refund)
	for { // until it is in the stream, and applied
		consumer, err := js.Consumer(t.Context(), "REFUNDS", "billing")
		if err == nil && consumer.CachedInfo().Delivered.Consumer > 0 && consumer.CachedInfo().NumPending == 0 && consumer.CachedInfo().NumAckPending == 0 {
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

// pay is a service that adds m to its outbox. A relay delivers it, as soon as there is a stream, until the test ends.
func pay(t *testing.T, js jetstream.JetStream, m message.Message) {
	t.Helper()
	db, err := sqlstore.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "payments.db")+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	if err := sqlstore.Migrate(t.Context(), db, outbox.Migrations); err != nil {
		t.Fatal(err)
	}
	s, err := sqlstore.New(t.Context(), db, sqlstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	box := outbox.New(s, outbox.Config{Source: "payments"})
	relay := box.Relay(natsbroker.Publisher(js), outbox.RelayConfig{})
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(box.Add(t.Context(), tx, m), tx.Commit()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := errors.Join(<-ended, db.Close()); err != nil {
			t.Error(err)
		}
	})
}
