// Command sqlx makes refunds with sqlx. Refunds that are asked for again, with the
// same Idempotency-Key, are made once.
//
//	go run . &
//	curl -i 127.0.0.1:8080/refunds -H 'X-Tenant: acme' -H 'Idempotency-Key: k1' -d '{"charge":"ch_1","amount":1000}'
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/jmoiron/sqlx/reflectx"
	_ "modernc.org/sqlite"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
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
	idempotent := oncehttp.Middleware(engine, oncehttp.Config{Principal: account})

	mux := http.NewServeMux()
	mux.Handle("POST /refunds", idempotent(http.HandlerFunc(createRefund)))
	return mux
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

// account returns who asks, from a header that your authentication sets. Without it the answer is 401. A token is not an
// account: after a refresh it would be another one, with keys of its own.
func account(r *http.Request) string { return r.Header.Get("X-Tenant") }

type refund struct {
	ID     int64  `db:"id"     json:"id"`
	Charge string `db:"charge" json:"charge"`
	Amount int64  `db:"amount" json:"amount"`
}

var mapper = reflectx.NewMapperFunc("db", sqlx.NameMapper)

func createRefund(w http.ResponseWriter, r *http.Request) {
	var f refund
	if err := json.NewDecoder(r.Body).Decode(&f); err != nil {
		http.Error(w, "the body is not a refund", http.StatusBadRequest)
		return
	}
	tx := sqlx.Tx{Tx: oncehttp.Tx[*sql.Tx](r.Context()), Mapper: mapper} // of PostgreSQL: see docs/orm.md
	if _, err := tx.NamedExecContext(r.Context(), "insert into refund (charge, amount) values (:charge, :amount)", f); err != nil {
		oncehttp.Fail(w, r, err)
		return
	}
	if err := tx.GetContext(r.Context(), &f, "select * from refund where id = last_insert_rowid()"); err != nil {
		oncehttp.Fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	if err := json.NewEncoder(w).Encode(f); err != nil {
		oncehttp.Fail(w, r, err)
	}
}
