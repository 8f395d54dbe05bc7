package journal_test

import (
	"context"
	"database/sql"
	"net/http"

	"github.com/oncelib/once/retry/journal"
	"github.com/oncelib/once/retry/retryhttp"
	"github.com/oncelib/once/store/sqlstore"
)

// An order and the request for its payment are there together or not at all; what is there
// is sent, by this process or by one that comes after it.
func ExampleTable() { //nolint:testableexamples // it needs a database: integration/operate runs it
	pay := func(ctx context.Context, db *sql.DB, s *sqlstore.Store, order string) (journal.Resumed, error) {
		intents, err := journal.OpenTable(s, journal.Config{})
		if err != nil {
			return journal.Resumed{}, err
		}
		insert, args, err := intents.Insert(journal.Intent{
			Key: "pay:" + order, Method: http.MethodPost, URL: "https://api.example/payments", Body: []byte(order),
		})
		if err != nil {
			return journal.Resumed{}, err
		}
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return journal.Resumed{}, err
		}
		defer func() { _ = tx.Rollback() }()
		if _, err := tx.ExecContext(ctx, "insert into orders (id) values ($1)", order); err != nil {
			return journal.Resumed{}, err
		}
		if _, err := tx.ExecContext(ctx, insert, args...); err != nil {
			return journal.Resumed{}, err
		}
		if err := tx.Commit(); err != nil {
			return journal.Resumed{}, err
		}
		client := &http.Client{Transport: &retryhttp.Transport{Journal: intents}}
		return journal.Resume(ctx, intents, client, journal.Options{}) // and when a process starts, and now and then
	}
	_ = pay
}
