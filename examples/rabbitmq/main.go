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
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	_ "modernc.org/sqlite"

	"github.com/oncelib/once"
	"github.com/oncelib/once/broker/amqpbroker"
	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/message/cloudevent"
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

// run books events until ctx ends. The client does not connect again: when the connection is lost, run returns an error, and whatever has
// started the program starts it again. What was not acknowledged then comes again, and the inbox knows what it has applied.
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
	if err := declare(ctx, url); err != nil {
		return err
	}

	conn, err := amqp.Dial(url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	if err := ch.Qos(1, 0, false); err != nil { // the next message after the acknowledgement of this one
		return err
	}
	deliveries, err := ch.ConsumeWithContext(ctx, "refunds", "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	beside, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { _ = in.Run(beside, book) }) // applies dead letters that are redriven, and forgets old IDs
	defer func() { stop(); running.Wait() }()
	for d := range deliveries {
		if err := handle(ctx, in, d); err != nil {
			return err
		}
	}
	if ctx.Err() == nil {
		return errors.New("the connection to RabbitMQ is lost, or the queue is deleted")
	}
	return nil
}

// declare makes the queue if it is not there, and tells which of its settings lose messages.
func declare(ctx context.Context, url string) error {
	conn, err := amqpbroker.Dial(url, amqp.Config{})
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := amqpbroker.Declare(ctx, conn, amqpbroker.Queue{Name: "refunds"}); err != nil {
		return err
	}
	findings, err := amqpbroker.Check(ctx, conn, "refunds")
	for _, finding := range findings {
		slog.Warn("a setting of the queue", "finding", finding)
	}
	return err
}

// handle applies a message, and acknowledges it after the commit. After a failure it waits as the policy of the inbox says, and gives it back.
func handle(ctx context.Context, in *inbox.Inbox[*sql.Tx], d amqp.Delivery) error {
	m, err := cloudevent.Decode(headers(d), cloudevent.AMQP, d.Body)
	if err != nil {
		slog.Error("not an event", "error", err)
		return d.Reject(false) // to the x-dead-letter-exchange of the queue, if it has one
	}
	m.Topic = d.RoutingKey
	if _, err := in.Handle(ctx, m, book); err != nil {
		_, after := retry.Classify(err)
		select {
		case <-time.After(max(after, time.Second)):
		case <-ctx.Done():
		}
		return d.Nack(false, true)
	}
	return d.Ack(false)
}

// headers are those of an event. Its content type is a property.
func headers(d amqp.Delivery) func(yield func(name, value string) bool) {
	return func(yield func(name, value string) bool) {
		if d.ContentType != "" && !yield("content-type", d.ContentType) {
			return
		}
		for name, value := range d.Headers {
			if text, ok := value.(string); ok && !yield(name, text) {
				return
			}
		}
	}
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
