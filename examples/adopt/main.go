// Command adopt is a service that kept its idempotency keys by hand and changes to once while it runs: old.go is what it was. Processes of
// both kinds may run at the same time, and a retry of what an old one has executed gets that answer.
//
//	DATABASE_URL=postgres://... go run . &
//	curl -i 127.0.0.1:8080/refunds -H 'X-Tenant: acme' -H 'Idempotency-Key: k1' -d '{"charge":"ch_1","amount":1000}'
package main

import (
	"context"
	_ "embed" // of the schema
	"errors"
	"io"
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

//go:embed schema.sql
var schema string

func main() {
	pool, err := pgxpool.New(context.Background(), os.Getenv("DATABASE_URL"))
	if err == nil {
		err = prepare(context.Background(), pool)
	}
	if err != nil {
		slog.Error("the server is not started", "error", err)
		os.Exit(1)
	}
	engine := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{})
	server := &http.Server{Addr: "127.0.0.1:8080", Handler: newServer(engine), ReadHeaderTimeout: 5 * time.Second}
	slog.Error("the server has ended", "error", server.ListenAndServe())
	os.Exit(1)
}

// prepare makes the tables.
func prepare(ctx context.Context, pool *pgxpool.Pool) error {
	if err := pgxstore.Migrate(ctx, pool); err != nil {
		return err
	}
	_, err := pool.Exec(ctx, schema)
	return err
}

// newServer is the service with once, for as long as old processes run and old keys count.
func newServer(engine *once.Engine[pgx.Tx]) http.Handler {
	idempotent := oncehttp.Middleware(engine, oncehttp.Config{Principal: account, Wait: 5 * time.Second})

	mux := http.NewServeMux()
	mux.Handle("POST /refunds", idempotent(http.HandlerFunc(createRefund)))
	return mux
}

// account returns who asks, from a header that your authentication sets. Without it the answer is 401. A token is not an
// account: after a refresh it would be another one, with keys of its own.
func account(r *http.Request) string { return r.Header.Get("X-Tenant") }

// createRefund keeps the key in the old table as well, in the same transaction. When no old process runs any more, and the last of their keys
// is as old as keys are kept, oldClaim and oldComplete are left out and the table is dropped.
func createRefund(w http.ResponseWriter, r *http.Request) {
	tx := oncehttp.Tx[pgx.Tx](r.Context())
	key, _ := oncehttp.Key(r.Context()) // whichever header it has come in
	body, err := io.ReadAll(r.Body)
	if err != nil {
		oncehttp.Fail(w, r, err)
		return
	}
	a, found, err := oldClaim(r.Context(), tx, account(r), key, body)
	if err == nil && !found {
		if a, err = refund(r.Context(), tx, body); err == nil {
			err = oldComplete(r.Context(), tx, account(r), key, a)
		}
	}
	if errors.Is(err, errOtherRequest) { // once does not keep a 409: it must not take this request for the one of the key
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	if err != nil {
		oncehttp.Fail(w, r, err)
		return
	}
	a.write(w) // once keeps what an old process has answered, too
}
