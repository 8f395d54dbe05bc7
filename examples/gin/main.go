// Command gin makes refunds with gin. Refunds that are asked for again, with the
// same Idempotency-Key, are made once.
//
//	go run . &
//	curl -i 127.0.0.1:8080/refunds -H 'X-Tenant: acme' -H 'Idempotency-Key: k1' -d '{"charge":"ch_1","amount":1000}'
package main

import (
	"context"
	"database/sql"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/gin-gonic/gin"
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

	protected := gin.New() // a second gin engine, so that each run of a handler has a new gin.Context
	protected.POST("/refunds", createRefund)

	router := gin.New() // for authentication, logging, and routes that need no key
	router.POST("/refunds", gin.WrapH(idempotent(protected)))
	return router
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
	ID     int64  `json:"id"`
	Charge string `json:"charge"`
	Amount int64  `json:"amount"`
}

func createRefund(c *gin.Context) {
	var f refund
	if err := c.ShouldBindJSON(&f); err != nil {
		c.String(http.StatusBadRequest, "the body is not a refund")
		return
	}
	tx := oncehttp.Tx[*sql.Tx](c.Request.Context())
	err := tx.QueryRowContext(c.Request.Context(), "insert into refund (charge, amount) values (?, ?) returning id", f.Charge, f.Amount).Scan(&f.ID)
	if err != nil {
		oncehttp.Fail(c.Writer, c.Request, err) // not c.Error: gin would answer 200, and that commits
		return
	}
	c.JSON(http.StatusCreated, f)
}
