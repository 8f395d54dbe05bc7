// Command outbox makes refunds, and sends an event for each of them to another service. The event
// commits with the refund: no crash loses it, and a refund that is rolled back has none.
//
//	go run . &
//	curl -i 127.0.0.1:8080/refunds -H 'Idempotency-Key: k1' -d '{"account":"acct_1","amount":1000}'
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
	"strconv"
	"syscall"
	"time"

	_ "modernc.org/sqlite"

	"github.com/oncelib/once"
	"github.com/oncelib/once/broker/httpbroker"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store/sqlstore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, "127.0.0.1:8080", "http://127.0.0.1:8081/events")
	stop()
	if err != nil {
		slog.Error("the service has ended", "error", err)
		os.Exit(1)
	}
}

// run serves refunds, and delivers their events to target, until ctx ends. Then running requests end.
func run(ctx context.Context, address, target string) error {
	handler, relay, err := newService(ctx, "file:refunds.db", target)
	if err != nil {
		return err
	}
	server := &http.Server{Addr: address, Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	serving, end := context.WithCancelCause(ctx)
	go func() { end(server.ListenAndServe()) }() // a server that cannot start also ends the relay

	err = relay.Run(serving) // returns when the deliveries on their way have ended
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err = errors.Join(err, server.Shutdown(closing))
	if ctx.Err() == nil { // the service ends by itself
		err = errors.Join(err, context.Cause(serving))
	}
	return err
}

func newService(ctx context.Context, dsn, target string) (http.Handler, *outbox.Relay, error) {
	db, err := sqlstore.Open("sqlite", dsn+pragmas)
	if err != nil {
		return nil, nil, err
	}
	s, err := prepare(ctx, db)
	if err != nil {
		return nil, nil, err
	}

	box := outbox.New(s, outbox.Config{Source: "/refunds"})
	relay := box.Relay(httpbroker.Publisher(target, httpbroker.Config{}), outbox.RelayConfig{})
	engine := once.New(s, once.Config{AfterCommit: relay.Wake}) // a commit wakes the relay

	return newServer(engine, box), relay, nil
}

func newServer(engine *once.Engine[*sql.Tx], box *outbox.Box[*sql.Tx]) http.Handler {
	return oncehttp.Handler(engine, oncehttp.Config{Principal: oncehttp.SharedPrincipal()}, createRefund(box))
}

const pragmas = "?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)"

// prepare makes the tables, and returns a store.
func prepare(ctx context.Context, db *sql.DB) (*sqlstore.Store, error) {
	if err := sqlstore.Migrate(ctx, db, outbox.Migrations); err != nil {
		return nil, err
	}
	if _, err := db.ExecContext(ctx, "create table if not exists refund (id integer primary key, account text, amount integer)"); err != nil {
		return nil, err
	}
	return sqlstore.New(ctx, db, sqlstore.Config{})
}

type refund struct {
	ID      int64  `json:"id"`
	Account string `json:"account"`
	Amount  int64  `json:"amount"`
}

func createRefund(box *outbox.Box[*sql.Tx]) func(w http.ResponseWriter, r *http.Request, tx *sql.Tx) {
	return func(w http.ResponseWriter, r *http.Request, tx *sql.Tx) {
		var f refund
		if err := json.NewDecoder(r.Body).Decode(&f); err != nil {
			http.Error(w, "the body is not a refund", http.StatusBadRequest)
			return
		}
		err := tx.QueryRowContext(r.Context(), "insert into refund (account, amount) values (?, ?) returning id", f.Account, f.Amount).Scan(&f.ID)
		if err != nil {
			oncehttp.Fail(w, r, err)
			return
		}
		body, err := json.Marshal(f)
		if err == nil {
			err = box.Add(r.Context(), tx, message.Message{
				Topic: "refunds", Key: f.Account, Type: "refund.succeeded", Payload: body,
				Headers: map[string]string{"content-type": "application/json"},
			})
		}
		if err != nil {
			oncehttp.Fail(w, r, err) // rolls the refund back
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(body)
	}
}

// receive handles the events in another service, once each and in the order of their key: the
// number of the last one commits with what an event does.
func receive(db *sql.DB, handle func(tx *sql.Tx, kind string, r *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("Ce-Partitionkey")
		seq, err := strconv.ParseInt(r.Header.Get("Ce-Sequence"), 10, 64)
		if err != nil {
			http.Error(w, "not an event with an order", http.StatusBadRequest)
			return
		}
		err = inTx(r.Context(), db, func(tx *sql.Tx) error {
			moved, err := tx.ExecContext(r.Context(), `insert into position (topic, key, seq) values ('refunds', ?, ?)
				on conflict (topic, key) do update set seq = excluded.seq where excluded.seq > position.seq`, key, seq)
			if err != nil {
				return err
			}
			if n, err := moved.RowsAffected(); n == 0 || err != nil {
				return err // n is 0: this event was handled before
			}
			return handle(tx, r.Header.Get("Ce-Type"), r)
		})
		if err != nil {
			http.Error(w, "the request has failed: try again", http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

func inTx(ctx context.Context, db *sql.DB, do func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}
