package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"

	"github.com/oncelib/once"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store/sqlstore"
)

func Example() {
	check := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "once")
	check(err)
	defer func() { _ = os.RemoveAll(dir) }()
	db, err := sqlstore.Open("sqlite", "file:"+filepath.Join(dir, "payments.db")+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)")
	check(err)
	defer db.Close()
	check(sqlstore.Migrate(ctx, db, outbox.Migrations))
	_, err = db.ExecContext(ctx, "create table refund (id text primary key, amount integer)")
	check(err)
	s, err := sqlstore.New(ctx, db, sqlstore.Config{})
	check(err)
	engine := once.New(s, once.Config{})
	box := outbox.New(s, outbox.Config{Source: "/payments"})

	refund := func(key string) {
		_, err := once.Do(ctx, engine, once.Operation{Scope: "acme POST /refunds", Key: key}, func(ctx context.Context, tx *sql.Tx) (string, error) {
			id := "re_" + key
			if _, err := tx.ExecContext(ctx, "insert into refund (id, amount) values ($1, 1000)", id); err != nil {
				return "", err
			}
			return id, box.Add(ctx, tx, message.Message{
				Topic: "refunds", Key: "account 42", Type: "refund.succeeded", Payload: []byte(`{"id":"` + id + `"}`),
			})
		})
		check(err)
	}
	refund("1")
	refund("1") // a retry: it is replayed, and adds nothing
	refund("2")

	list, _, err := box.List(ctx, outbox.Filter{})
	check(err)
	for _, e := range list {
		e, err := box.Show(ctx, e.ID)
		check(err)
		fmt.Println(e.State, e.Topic, e.Key, e.Seq, e.Type, string(e.Payload))
	}
	// Output:
	// waiting refunds account 42 1 refund.succeeded {"id":"re_1"}
	// waiting refunds account 42 2 refund.succeeded {"id":"re_2"}
}
