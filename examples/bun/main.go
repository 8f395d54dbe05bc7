// Command bun makes refunds with bun. Refunds that are asked for again, with the
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

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	_ "modernc.org/sqlite"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/sqlstore"
)

func main() {
	db, err := sqlstore.Open("sqlite", "file:refunds.db"+pragmas)
	if err != nil {
		slog.Error("the database is not opened", "error", err)
		os.Exit(1)
	}
	s, err := prepare(context.Background(), db)
	if err != nil {
		slog.Error("the tables are not created", "error", err)
		os.Exit(1)
	}
	server := &http.Server{Addr: "127.0.0.1:8080", Handler: newServer(once.New(s, once.Config{}), db), ReadHeaderTimeout: 5 * time.Second}
	slog.Error("the server has ended", "error", server.ListenAndServe())
	os.Exit(1)
}

func newServer(engine *once.Engine[*sql.Tx], db *sql.DB) http.Handler {
	idempotent := oncehttp.Middleware(engine, oncehttp.Config{Principal: account})

	mux := http.NewServeMux()
	mux.Handle("POST /refunds", idempotent(createRefund(bun.NewDB(db, sqlitedialect.New()))))
	return mux
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
	bun.BaseModel `bun:"table:refund" json:"-"`

	ID     int64  `bun:",pk,autoincrement" json:"id"`
	Charge string `json:"charge"`
	Amount int64  `json:"amount"`
}

func createRefund(db *bun.DB) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var f refund
		if err := json.NewDecoder(r.Body).Decode(&f); err != nil {
			http.Error(w, "the body is not a refund", http.StatusBadRequest)
			return
		}
		tx := oncehttp.Tx[*sql.Tx](r.Context())
		if _, err := db.NewInsert().Conn(tx).Model(&f).Exec(r.Context()); err != nil { // Conn in every query
			oncehttp.Fail(w, r, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		if err := json.NewEncoder(w).Encode(f); err != nil {
			oncehttp.Fail(w, r, err)
		}
	}
}
