package inbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/oncelib/once"
	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/message"
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
	db, err := sqlstore.Open("sqlite", "file:"+filepath.Join(dir, "billing.db")+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)")
	check(err)
	defer db.Close()
	check(sqlstore.Migrate(ctx, db, inbox.Migrations, deadletter.Migrations))
	_, err = db.ExecContext(ctx, "create table booking (id text, amount integer)")
	check(err)
	s, err := sqlstore.New(ctx, db, sqlstore.Config{})
	check(err)
	engine := once.New(s, once.Config{})

	in := inbox.New(engine, inbox.Config{Consumer: "billing", Order: inbox.InOrder})
	book := func(ctx context.Context, tx *sql.Tx, m message.Message) error {
		_, err := tx.ExecContext(ctx, "insert into booking (id, amount) values (?, ?)", m.ID, string(m.Payload))
		return err
	}
	for _, m := range []message.Message{
		{ID: "e1", Topic: "refunds", Key: "account 42", Seq: 1, Type: "refund.succeeded", Payload: []byte("1000")},
		{ID: "e1", Topic: "refunds", Key: "account 42", Seq: 1, Type: "refund.succeeded", Payload: []byte("1000")},
		{ID: "e3", Topic: "refunds", Key: "account 42", Seq: 3, Type: "refund.succeeded", Payload: []byte("3000")},
		{ID: "e2", Topic: "refunds", Key: "account 42", Seq: 2, Type: "refund.succeeded", Payload: []byte("2000")},
	} {
		outcome, err := in.Handle(ctx, m, book)
		check(err) // without an error, acknowledge the message
		fmt.Println(m.ID, outcome)
	}

	rows, err := db.QueryContext(ctx, "select id, amount from booking order by rowid")
	check(err)
	defer rows.Close()
	for rows.Next() {
		var id string
		var amount int
		check(rows.Scan(&id, &amount))
		fmt.Println(id, amount)
	}
	check(rows.Err())
	// Output:
	// e1 applied
	// e1 duplicate
	// e3 parked
	// e2 applied
	// e1 1000
	// e2 2000
	// e3 3000
}

func ExampleDo() {
	check := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "once")
	check(err)
	defer func() { _ = os.RemoveAll(dir) }()
	db, err := sqlstore.Open("sqlite", "file:"+filepath.Join(dir, "billing.db")+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)")
	check(err)
	defer db.Close()
	check(sqlstore.Migrate(ctx, db, inbox.Migrations, deadletter.Migrations))
	s, err := sqlstore.New(ctx, db, sqlstore.Config{})
	check(err)

	in := inbox.New(once.New(s, once.Config{}), inbox.Config{Consumer: "billing"})
	runs := 0
	for range 2 {
		r, err := inbox.Do(ctx, in, message.Message{ID: "e1"}, func(context.Context, *sql.Tx, message.Message) (string, error) {
			runs++
			return fmt.Sprint("receipt ", runs), nil
		})
		if errors.Is(err, inbox.ErrDeadLettered) {
			continue
		}
		check(err)
		fmt.Println(r.Value, r.Replayed)
	}
	// Output:
	// receipt 1 false
	// receipt 1 true
}
