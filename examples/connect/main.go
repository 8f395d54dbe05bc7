// Command connect makes refunds with connect-go, over Connect, gRPC and gRPC-Web. A client
// that retries with the same key gets the answer of the first time.
//
//	go run . &
//	curl -i 127.0.0.1:8080/refunds.v1.Refunds/CreateRefund -H 'Content-Type: application/json' \
//		-H 'Idempotency-Key: k1' -d '{"charge":"ch_1","amount":1000}'
package main

import (
	"context"
	"database/sql"
	"log/slog"
	"net/http"
	"os"
	"time"

	"connectrpc.com/connect"
	_ "modernc.org/sqlite"

	"github.com/oncelib/once"
	"github.com/oncelib/once/examples/connect/refundsv1"
	"github.com/oncelib/once/onceconnect"
	"github.com/oncelib/once/store/sqlstore"
)

func main() {
	s, err := open(context.Background(), "file:refunds.db")
	if err != nil {
		slog.Error("the server is not started", "error", err)
		os.Exit(1)
	}
	server := &http.Server{Addr: "127.0.0.1:8080", Handler: newServer(once.New(s, once.Config{})), ReadHeaderTimeout: 5 * time.Second}
	slog.Error("the server has ended", "error", server.ListenAndServe())
	os.Exit(1)
}

func newServer(engine *once.Engine[*sql.Tx]) http.Handler {
	mux := http.NewServeMux()
	mux.Handle(refundsv1.NewRefundsHandler(service{}, connect.WithInterceptors(
		// interceptors for authentication go here, before the interceptor of once
		onceconnect.NewInterceptor(engine, onceconnect.Config{Principal: account}),
	)))
	return mux
}

// account is who asks. A real one comes from authentication.
func account(context.Context, connect.AnyRequest) string { return "anybody" }

type service struct {
	refundsv1.UnimplementedRefundsHandler
}

func (service) CreateRefund(ctx context.Context, req *refundsv1.CreateRefundRequest) (*refundsv1.Refund, error) {
	tx := onceconnect.Tx[*sql.Tx](ctx)
	r := &refundsv1.Refund{Charge: req.GetCharge(), Amount: req.GetAmount()}
	err := tx.QueryRowContext(ctx, "insert into refund (charge, amount) values (?, ?) returning id", r.GetCharge(), r.GetAmount()).Scan(&r.Id)
	return r, err
}

func newClient(transport connect.HTTPClient, url string) refundsv1.RefundsClient {
	return refundsv1.NewRefundsClient(transport, url, connect.WithInterceptors(
		onceconnect.NewClientInterceptor(onceconnect.ClientConfig{}),
	))
}

// refund asks until there is an answer. The key names the intent: keep it with that.
func refund(ctx context.Context, c refundsv1.RefundsClient, key, charge string, amount int64) (*refundsv1.Refund, error) {
	ctx = onceconnect.WithKey(ctx, key)
	return c.CreateRefund(ctx, &refundsv1.CreateRefundRequest{Charge: charge, Amount: amount})
}

func open(ctx context.Context, dsn string) (*sqlstore.Store, error) {
	db, err := sqlstore.Open("sqlite", dsn+pragmas)
	if err != nil {
		return nil, err
	}
	return prepare(ctx, db)
}

const pragmas = "?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)"

// prepare makes the tables, and returns a store.
func prepare(ctx context.Context, db *sql.DB) (*sqlstore.Store, error) {
	if err := sqlstore.Migrate(ctx, db); err != nil {
		return nil, err
	}
	if _, err := db.ExecContext(ctx, "create table if not exists refund (id integer primary key, charge text, amount integer)"); err != nil {
		return nil, err
	}
	return sqlstore.New(ctx, db, sqlstore.Config{})
}
