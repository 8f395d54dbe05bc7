package outbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store/sqlstore"
)

func ExampleBox_Add() { //nolint:testableexamples // it needs a database: internal/torture/outbox has one that runs
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
		return "re_1", box.Add(ctx, tx, outbox.Message{
			Topic: "refunds", Key: "account 42", Type: "refund.succeeded", Payload: []byte(`{"id":"re_1","amount":1000}`),
		})
	})
	if err != nil {
		log.Print(err)
	}
}

func ExampleMessage_CloudEvent() {
	m := outbox.Message{
		Topic: "refunds", Key: "account 42", Type: "refund.succeeded", Source: "/payments",
		ID: "0190a2d1-7c54-7cc0-8f0a-3f1b2a9c4d5e", Seq: 7, CreatedAt: time.Date(2026, 11, 22, 8, 30, 0, 250_000_000, time.UTC),
		Headers: map[string]string{"content-type": "application/json"}, Payload: []byte(`{"id":"re_1"}`),
	}
	for name, value := range m.CloudEvent() {
		fmt.Printf("ce-%s: %s\n", name, value)
	}
	// Output:
	// ce-specversion: 1.0
	// ce-id: 0190a2d1-7c54-7cc0-8f0a-3f1b2a9c4d5e
	// ce-source: /payments
	// ce-type: refund.succeeded
	// ce-time: 2026-11-22T08:30:00.25Z
	// ce-subject: account 42
	// ce-datacontenttype: application/json
	// ce-partitionkey: account 42
	// ce-sequence: 0000000000000000007
}
