// Command rabbitmq books events of another service from a queue of RabbitMQ, each of them once and in the order of its account. The
// booking commits with the note that the event was applied, and RabbitMQ forgets the event after that.
//
//	AMQP_URL=amqp://guest:guest@localhost:5672/ go run .
package main

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	amqp "github.com/rabbitmq/amqp091-go"
	_ "modernc.org/sqlite"

	"github.com/oncelib/once"
	"github.com/oncelib/once/broker/amqpbroker"
	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/store/sqlstore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, cmp.Or(os.Getenv("AMQP_URL"), "amqp://localhost"), "file:billing.db"); err != nil {
		slog.Error("the consumer has ended", "error", err)
	}
}

// run books events until ctx ends, and returns when the handlers that run have returned.
func run(ctx context.Context, url, dsn string) error {
	db, err := sqlstore.Open("sqlite", dsn+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)")
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	in, err := newInbox(ctx, db)
	if err != nil {
		return err
	}

	conn, err := amqpbroker.Dial(url, amqp.Config{})
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := amqpbroker.Declare(ctx, conn, amqpbroker.Queue{Name: "refunds"}); err != nil {
		return err
	}
	findings, err := amqpbroker.Check(ctx, conn, "refunds")
	if err != nil {
		return err
	}
	for _, finding := range findings {
		slog.Warn(finding)
	}
	return amqpbroker.Consume(ctx, conn, in, book, amqpbroker.ConsumerConfig{Queue: "refunds"})
}

func newInbox(ctx context.Context, db *sql.DB) (*inbox.Inbox[*sql.Tx], error) {
	if err := sqlstore.Migrate(ctx, db, inbox.Migrations, deadletter.Migrations); err != nil {
		return nil, err
	}
	if _, err := db.ExecContext(ctx, "create table if not exists booking (account text, amount integer)"); err != nil {
		return nil, err
	}
	s, err := sqlstore.New(ctx, db, sqlstore.Config{})
	if err != nil {
		return nil, err
	}
	return inbox.New(once.New(s, once.Config{}), inbox.Config{Consumer: "billing", Order: inbox.InOrder}), nil
}

// book applies an event. What it writes commits with the note that the event was applied.
func book(ctx context.Context, tx *sql.Tx, m message.Message) error {
	var refund struct {
		Account string `json:"account"`
		Amount  int64  `json:"amount"`
	}
	if err := json.Unmarshal(m.Payload, &refund); err != nil {
		return retry.Permanent(err) // a dead letter now: no other attempt can change it
	}
	_, err := tx.ExecContext(ctx, "insert into booking (account, amount) values (?, ?)", refund.Account, refund.Amount)
	return err
}
