package outbox_test

import (
	"context"
	"database/sql"
	"log"

	"github.com/oncelib/once"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store/sqlstore"
)

func ExampleBox_Add() { //nolint:testableexamples // it needs a database: integration/outbox has one that runs
	ctx := context.Background()
	var db *sql.DB // of sqlstore.Open
	if err := sqlstore.Migrate(ctx, db, outbox.Migrations); err != nil {
		log.Panic(err)
	}
	s, err := sqlstore.New(ctx, db, sqlstore.Config{})
	if err != nil {
		log.Panic(err)
	}
	engine := once.New(s, once.Config{})
	box := outbox.New(s, outbox.Config{Source: "/payments"})

	op := once.Operation{Scope: "acme POST /refunds", Key: "8e03978e"}
	_, err = once.Do(ctx, engine, op, func(ctx context.Context, tx *sql.Tx) (string, error) {
		if _, err := tx.ExecContext(ctx, "insert into refund (id, amount) values ('re_1', 1000)"); err != nil {
			return "", err
		}
		return "re_1", box.Add(ctx, tx, message.Message{
			Topic: "refunds", Key: "account 42", Type: "refund.succeeded", Payload: []byte(`{"id":"re_1","amount":1000}`),
		})
	})
	if err != nil {
		log.Print(err)
	}
}
