// Command sqlc makes refunds with sqlc, on PostgreSQL through pgx. Refunds that are asked for
// again, with the same Idempotency-Key, are made once.
//
//	DATABASE_URL=postgres://... go run . &
//	curl -i 127.0.0.1:8080/refunds -H 'X-Tenant: acme' -H 'Idempotency-Key: k1' -d '{"charge":"ch_1","amount":1000}'
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/examples/sqlc/refunds"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/pgxstore"
)

//go:generate go run github.com/sqlc-dev/sqlc/cmd/sqlc@v1.31.1 generate

//go:embed schema.sql
var schema string

func main() {
	s, err := open(context.Background(), os.Getenv("DATABASE_URL"))
	if err != nil {
		slog.Error("the server is not started", "error", err)
		os.Exit(1)
	}
	server := &http.Server{Addr: "127.0.0.1:8080", Handler: newServer(once.New(s, once.Config{})), ReadHeaderTimeout: 5 * time.Second}
	slog.Error("the server has ended", "error", server.ListenAndServe())
	os.Exit(1)
}

func newServer(engine *once.Engine[pgx.Tx]) http.Handler {
	idempotent := oncehttp.Middleware(engine, oncehttp.Config{Principal: account})

	mux := http.NewServeMux()
	mux.Handle("POST /refunds", idempotent(http.HandlerFunc(createRefund)))
	return mux
}

func open(ctx context.Context, dsn string) (*pgxstore.Store, error) {
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return nil, err
	}
	return prepare(ctx, pool)
}

// prepare makes the tables, and returns a store.
func prepare(ctx context.Context, pool *pgxpool.Pool) (*pgxstore.Store, error) {
	if err := pgxstore.Migrate(ctx, pool); err != nil {
		return nil, err
	}
	if _, err := pool.Exec(ctx, schema); err != nil {
		return nil, err
	}
	return pgxstore.New(pool, pgxstore.Config{}), nil
}

func createRefund(w http.ResponseWriter, r *http.Request) {
	var f refunds.CreateRefundParams
	if err := json.NewDecoder(r.Body).Decode(&f); err != nil {
		http.Error(w, "the body is not a refund", http.StatusBadRequest)
		return
	}
	queries := refunds.New(oncehttp.Tx[pgx.Tx](r.Context()))
	refund, err := queries.CreateRefund(r.Context(), f)
	if err != nil {
		oncehttp.Fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	if err := json.NewEncoder(w).Encode(refund); err != nil {
		oncehttp.Fail(w, r, err)
	}
}

// account returns who asks, from a header that your authentication sets. Without it the answer is 401. A token is not an
// account: after a refresh it would be another one, with keys of its own.
func account(r *http.Request) string { return r.Header.Get("X-Tenant") }
