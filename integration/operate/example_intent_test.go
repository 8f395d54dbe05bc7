package operate_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/oncelib/once/retry/journal"
	"github.com/oncelib/once/retry/retryhttp"
	"github.com/oncelib/once/store/sqlstore"
)

// An order and the request for its payment are there together or not at all; what is there
// is sent.
func Example_intent() {
	ctx := context.Background()
	bank := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		fmt.Println(r.Header.Get("Idempotency-Key"), string(body), err)
	}))
	defer bank.Close()
	dir, err := os.MkdirTemp("", "once")
	check(err)
	defer func() { check(os.RemoveAll(dir)) }()
	db, err := sqlstore.Open("sqlite", "file:"+filepath.Join(dir, "app.db")+"?_pragma=busy_timeout(5000)")
	check(err)
	defer func() { check(db.Close()) }()
	check(sqlstore.Migrate(ctx, db, journal.Migrations))
	_, err = db.ExecContext(ctx, "create table orders (id text primary key)")
	check(err)
	store, err := sqlstore.New(ctx, db, sqlstore.Config{})
	check(err)
	intents, err := journal.OpenTable(store, journal.Config{})
	check(err)

	order := func(id string, commit bool) {
		tx, err := db.BeginTx(ctx, nil)
		check(err)
		defer func() { _ = tx.Rollback() }()
		_, err = tx.ExecContext(ctx, "insert into orders (id) values ($1)", id)
		check(err)
		insert, args, err := intents.Insert(journal.Intent{Key: "pay:" + id, Method: http.MethodPost, URL: bank.URL, Body: []byte("10 EUR")})
		check(err)
		_, err = tx.ExecContext(ctx, insert, args...)
		check(err)
		if commit {
			check(tx.Commit())
		}
	}
	order("o1", true)
	order("o2", false)
	client := &http.Client{Transport: &retryhttp.Transport{Journal: intents}}
	for range 2 {
		resumed, err := journal.Resume(ctx, intents, client, journal.Options{})
		check(err)
		fmt.Printf("%+v\n", resumed)
	}
	// Output:
	// pay:o1 10 EUR <nil>
	// {Closed:1 Open:0 Left:0 Held:0 Active:0}
	// {Closed:0 Open:0 Left:0 Held:0 Active:0}
}
