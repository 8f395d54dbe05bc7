// Command inbox receives events of another service by HTTP, and books each of them once, in the order of its account. The
// booking commits with the note that the event was applied, so an event that is sent again is not booked again.
//
//	go run . &
//	for i in 1 2; do curl -i 127.0.0.1:8081/events/refunds -H 'Idempotency-Key: e1' -d '{"account":"acct_1","amount":1000}'; done
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	_ "modernc.org/sqlite"

	"github.com/oncelib/once"
	"github.com/oncelib/once/broker/httpbroker"
	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/store/sqlstore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, "127.0.0.1:8081")
	stop()
	if err != nil {
		slog.Error("the receiver has ended", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, address string) error {
	db, in, err := open(ctx, "file:billing.db")
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	go func() { _ = in.Run(ctx, book) }() // applies dead letters that are redriven, and forgets old IDs

	mux := http.NewServeMux()
	mux.Handle("POST /events/{topic}", httpbroker.Receiver(in, book, httpbroker.ReceiverConfig{})) // put authentication around it
	server := &http.Server{Addr: address, Handler: mux, ReadTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	context.AfterFunc(ctx, func() { ended <- server.Shutdown(context.Background()) })
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-ended // the requests that were running have ended
}

func open(ctx context.Context, dsn string) (*sql.DB, *inbox.Inbox[*sql.Tx], error) {
	db, err := sqlstore.Open("sqlite", dsn+pragmas)
	if err != nil {
		return nil, nil, err
	}
	s, err := prepare(ctx, db)
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return db, newInbox(once.New(s, once.Config{})), nil
}

func newInbox(engine *once.Engine[*sql.Tx]) *inbox.Inbox[*sql.Tx] {
	return inbox.New(engine, inbox.Config{Consumer: "billing", Order: inbox.InOrder})
}

const pragmas = "?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)"

// prepare makes the tables, and returns a store.
func prepare(ctx context.Context, db *sql.DB) (*sqlstore.Store, error) {
	if err := sqlstore.Migrate(ctx, db, inbox.Migrations, deadletter.Migrations); err != nil {
		return nil, err
	}
	if _, err := db.ExecContext(ctx, "create table if not exists booking (account text, amount integer)"); err != nil {
		return nil, err
	}
	return sqlstore.New(ctx, db, sqlstore.Config{})
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
