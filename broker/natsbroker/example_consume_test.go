package natsbroker_test

import (
	"context"
	"database/sql"
	"fmt"
	"os/signal"
	"syscall"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/oncelib/once"
	"github.com/oncelib/once/broker/natsbroker"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/store/sqlstore"
)

func ExampleConsume() { //nolint:testableexamples // it needs a server
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	db, err := sqlstore.Open("pgx", "postgres://localhost/shop")
	if err != nil {
		fmt.Println(err)
		return
	}
	store, err := sqlstore.New(ctx, db, sqlstore.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	nc, err := nats.Connect("nats://localhost:4222", nats.MaxReconnects(-1))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		fmt.Println(err)
		return
	}
	in := inbox.New(once.New(store, once.Config{}), inbox.Config{Consumer: "billing", Order: inbox.InOrder})
	book := func(ctx context.Context, tx *sql.Tx, m message.Message) error {
		_, err := tx.ExecContext(ctx, "insert into ledger (refund) values ($1)", m.Payload)
		return err
	}
	// It returns after SIGTERM, when the handlers that run have returned.
	err = natsbroker.Consume(ctx, js, in, book, natsbroker.ConsumerConfig{Subjects: []string{"refunds"}})
	fmt.Println(err)
}
