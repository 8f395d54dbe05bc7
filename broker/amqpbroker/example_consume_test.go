package amqpbroker_test

import (
	"context"
	"database/sql"
	"fmt"
	"os/signal"
	"syscall"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/oncelib/once"
	"github.com/oncelib/once/broker/amqpbroker"
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
	conn, err := amqpbroker.Dial("amqp://guest:guest@localhost:5672/", amqp.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = conn.Close() }()
	in := inbox.New(once.New(store, once.Config{}), inbox.Config{Consumer: "billing", Order: inbox.InOrder})
	book := func(ctx context.Context, tx *sql.Tx, m message.Message) error {
		_, err := tx.ExecContext(ctx, "insert into ledger (refund) values ($1)", m.Payload)
		return err
	}
	// It returns after SIGTERM, when the handlers that run have returned.
	err = amqpbroker.Consume(ctx, conn, in, book, amqpbroker.ConsumerConfig{Queue: "refunds"})
	fmt.Println(err)
}
