// Command nethttp makes refunds with net/http, on PostgreSQL through pgx. Refunds that are asked for
// again, with the same Idempotency-Key, are made once.
//
//	DATABASE_URL=postgres://... go run . &
//	curl -i localhost:8080/refunds -H 'X-Tenant: acme' -H 'Idempotency-Key: k1' -d charge=ch_1
package main

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/pgxstore"
)

func main() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err == nil {
		err = prepare(ctx, pool)
	}
	if err != nil {
		slog.Error("the database is not opened", "error", err)
		os.Exit(1)
	}
	engine := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{})
	server := http.Server{Addr: "localhost:8080", Handler: newServer(engine), ReadHeaderTimeout: 5 * time.Second}
	slog.Error("the server has ended", "error", server.ListenAndServe())
	os.Exit(1)
}

// prepare makes the tables of once, and that of the refunds.
func prepare(ctx context.Context, pool *pgxpool.Pool) error {
	if err := pgxstore.Migrate(ctx, pool); err != nil {
		return err
	}
	_, err := pool.Exec(ctx, "create table if not exists refund (charge text)")
	return err
}

func newServer(engine *once.Engine[pgx.Tx]) http.Handler {
	idempotent := oncehttp.Middleware(engine, oncehttp.Config{Principal: tenant})

	mux := http.NewServeMux()
	mux.Handle("POST /refunds", idempotent(http.HandlerFunc(createRefund)))
	return mux
}

// tenant returns who asks, from a header that your authentication sets. Without it the answer is 401. A token is not a
// tenant: after a refresh it would be another one, with keys of its own.
func tenant(r *http.Request) string { return r.Header.Get("X-Tenant") }

func createRefund(w http.ResponseWriter, r *http.Request) {
	charge := r.FormValue("charge")
	if charge == "" {
		http.Error(w, "the charge is missing", http.StatusBadRequest) // an answer like any other: it is stored
		return
	}
	tx := oncehttp.Tx[pgx.Tx](r.Context()) // an ordinary pgx transaction
	if _, err := tx.Exec(r.Context(), "insert into refund (charge) values ($1)", charge); err != nil {
		oncehttp.Fail(w, r, err) // rolls back; after a deadlock the handler runs again, after another error the client gets 500
		return
	}
	w.WriteHeader(http.StatusCreated) // the transaction commits after the handler returns, before the response is sent
}
