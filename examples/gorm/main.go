// Command gorm makes refunds with GORM, on PostgreSQL. Refunds that are asked for again, with
// the same Idempotency-Key, are made once.
//
//	DATABASE_URL=postgres://... go run . &
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

	_ "github.com/jackc/pgx/v5/stdlib"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/sqlstore"
)

func main() {
	db, err := sqlstore.Open("pgx", os.Getenv("DATABASE_URL"))
	if err != nil {
		slog.Error("the database is not opened", "error", err)
		os.Exit(1)
	}
	s, orm, err := prepare(context.Background(), db)
	if err != nil {
		slog.Error("the tables are not created", "error", err)
		os.Exit(1)
	}
	server := &http.Server{Addr: "127.0.0.1:8080", Handler: newServer(once.New(s, once.Config{}), orm), ReadHeaderTimeout: 5 * time.Second}
	slog.Error("the server has ended", "error", server.ListenAndServe())
	os.Exit(1)
}

// Refund is a row, and its JSON.
type Refund struct {
	ID     int64  `json:"id"`
	Charge string `gorm:"uniqueIndex" json:"charge"`
	Amount int64  `json:"amount"`

	Transfer string `json:"transfer,omitempty"` // of the bank: see leased.go
}

func newServer(engine *once.Engine[*sql.Tx], orm *gorm.DB) http.Handler {
	idempotent := oncehttp.Middleware(engine, oncehttp.Config{Principal: account})

	mux := http.NewServeMux()
	mux.Handle("POST /refunds", idempotent(createRefund(orm)))
	return mux
}

// prepare makes the tables, and returns a store and GORM's handle.
func prepare(ctx context.Context, db *sql.DB) (*sqlstore.Store, *gorm.DB, error) {
	if err := sqlstore.Migrate(ctx, db); err != nil {
		return nil, nil, err
	}
	s, err := sqlstore.New(ctx, db, sqlstore.Config{})
	if err != nil {
		return nil, nil, err
	}
	orm, err := gorm.Open(postgres.New(postgres.Config{Conn: db}), &gorm.Config{Logger: logger.Discard})
	if err != nil {
		return nil, nil, err
	}
	return s, orm, orm.AutoMigrate(&Refund{})
}

// in returns orm inside of a transaction: what GORM does for its own.
func in(ctx context.Context, orm *gorm.DB, tx *sql.Tx) *gorm.DB {
	g := orm.Session(&gorm.Session{Context: ctx, NewDB: true, SkipDefaultTransaction: true})
	g.Statement.ConnPool = tx
	return g
}

func createRefund(orm *gorm.DB) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var f Refund
		if err := json.NewDecoder(r.Body).Decode(&f); err != nil {
			http.Error(w, "the body is not a refund", http.StatusBadRequest)
			return
		}
		tx := oncehttp.Tx[*sql.Tx](r.Context())
		if err := in(r.Context(), orm, tx).Create(&f).Error; err != nil {
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

// account returns who asks, from a header that your authentication sets. Without it the answer is 401. A token is not an
// account: after a refresh it would be another one, with keys of its own.
func account(r *http.Request) string { return r.Header.Get("X-Tenant") }
