// Command nats books refunds that arrive in a stream of NATS JetStream, each of them once, in the order of its account. Start as many as you like.
//
//	nats-server --jetstream &
//	go run .
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	_ "modernc.org/sqlite"

	"github.com/oncelib/once"
	"github.com/oncelib/once/broker/natsbroker"
	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/store/sqlstore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, "file:billing.db", "nats://127.0.0.1:4222")
	stop()
	if err != nil {
		slog.Error("the consumer has ended", "error", err)
		os.Exit(1)
	}
}

// run consumes messages until ctx ends. Then run waits for the handlers that are still running, and returns.
func run(ctx context.Context, dsn, server string) error {
	db, in, err := open(ctx, dsn)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	nc, err := nats.Connect(server, nats.MaxReconnects(-1))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	// In production Replicas: 3. The service whose relay sends calls this as well.
	err = natsbroker.EnsureStream(ctx, js, jetstream.StreamConfig{Name: "REFUNDS", Subjects: []string{"refunds"}})
	if err != nil {
		return err
	}
	return natsbroker.Consume(ctx, js, in, book, natsbroker.ConsumerConfig{Subjects: []string{"refunds"}})
}

// open opens the database, creates the tables, and returns the inbox of the consumer.
func open(ctx context.Context, dsn string) (*sql.DB, *inbox.Inbox[*sql.Tx], error) {
	db, err := sqlstore.Open("sqlite", dsn+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)")
	if err != nil {
		return nil, nil, err
	}
	err = sqlstore.Migrate(ctx, db, inbox.Migrations, deadletter.Migrations, operate.Migrations)
	if err == nil {
		_, err = db.ExecContext(ctx, "create table if not exists booking (account text, amount integer)")
	}
	var s *sqlstore.Store
	if err == nil {
		s, err = sqlstore.New(ctx, db, sqlstore.Config{})
	}
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return db, inbox.New(once.New(s, once.Config{}), inbox.Config{Consumer: "billing", Order: inbox.InOrder}), nil
}

// book applies an event. Its writes, and the row which records that the event was applied, are one commit.
func book(ctx context.Context, tx *sql.Tx, m message.Message) error {
	var refund struct {
		Account string `json:"account"`
		Amount  int64  `json:"amount"`
	}
	if err := json.Unmarshal(m.Payload, &refund); err != nil {
		return retry.Permanent(err) // a dead letter at once: a further attempt would fail, too
	}
	_, err := tx.ExecContext(ctx, "insert into booking (account, amount) values (?, ?)", refund.Account, refund.Amount)
	return err
}
