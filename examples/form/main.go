// Command form orders books with an HTML form. A hidden field holds the key, so that a double
// click, "back" and "resend" order once.
//
//	go run . # then http://127.0.0.1:8080/
package main

import (
	"context"
	"database/sql"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"os"
	"time"

	_ "modernc.org/sqlite"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/sqlstore"
)

func main() {
	s, err := open(context.Background(), "file:orders.db")
	if err != nil {
		slog.Error("the server is not started", "error", err)
		os.Exit(1)
	}
	server := &http.Server{Addr: "127.0.0.1:8080", Handler: newServer(once.New(s, once.Config{})), ReadHeaderTimeout: 5 * time.Second}
	slog.Error("the server has ended", "error", server.ListenAndServe())
	os.Exit(1)
}

func newServer(engine *once.Engine[*sql.Tx]) http.Handler {
	// A duplicate request waits for the first request, because the person who has clicked twice waits as well.
	cfg := oncehttp.Config{Principal: session, FormField: "once", Wait: 10 * time.Second}

	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", show)
	mux.Handle("POST /orders", oncehttp.Handler(engine, cfg, order))
	return mux
}

var page = template.Must(template.New("page").Parse(`<!doctype html><title>Books</title>
<form method="post" action="/orders">
  <input type="hidden" name="once" value="{{.}}">
  <input name="book" value="The Go Programming Language">
  <button>Order</button>
</form>`))

// show makes a key for each form that it shows: who wants two books asks for two forms. A first visit begins a session.
func show(w http.ResponseWriter, r *http.Request) {
	if session(r) == "" {
		http.SetCookie(w, &http.Cookie{Name: "session", Value: once.NewKey(), Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode}) //nolint:gosec // Secure is for a site with TLS: this example has none
	}
	w.Header().Set("Cache-Control", "no-store")
	_ = page.Execute(w, once.NewKey())
}

func order(w http.ResponseWriter, r *http.Request, tx *sql.Tx) {
	var id int64
	err := tx.QueryRowContext(r.Context(), "insert into book_order (book) values (?) returning id", r.FormValue("book")).Scan(&id)
	if err != nil {
		oncehttp.Fail(w, r, err)
		return
	}
	http.Redirect(w, r, fmt.Sprintf("/?ordered=%d", id), http.StatusSeeOther)
}

// session returns who asks: a shop would look up the account of this cookie. Without one the answer is 401.
func session(r *http.Request) string {
	cookie, err := r.Cookie("session")
	if err != nil {
		return ""
	}
	return cookie.Value
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
	if _, err := db.ExecContext(ctx, "create table if not exists book_order (id integer primary key, book text)"); err != nil {
		return nil, err
	}
	return sqlstore.New(ctx, db, sqlstore.Config{})
}
