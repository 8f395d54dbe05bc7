package hooks

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store/sqlstore"
	"github.com/oncelib/once/webhook"
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
	check(sqlstore.Migrate(ctx, db, webhook.Migrations))
	_, err = db.ExecContext(ctx, "create table refund (id text primary key, amount integer)")
	check(err)
	s, err := sqlstore.New(ctx, db, sqlstore.Config{})
	check(err)
	encrypter, err := once.NewEncrypter([]byte("an AES key of 32 bytes, kept safe"[:32]))
	check(err)
	engine := once.New(s, once.Config{})
	hooks := webhook.New(s, webhook.Config{Encrypter: encrypter})

	endpoint, secret, err := hooks.Endpoints().Create(ctx, webhook.Endpoint{Tenant: "acme", URL: "https://1.1.1.1/hooks", Types: []string{"refund.*"}})
	check(err)
	fmt.Println("the secret is shown once:", len(secret) > 40)

	refund := func(key string) {
		_, err := once.Do(ctx, engine, once.Operation{Scope: "acme POST /refunds", Key: key}, func(ctx context.Context, tx *sql.Tx) (string, error) {
			id := "re_" + key
			if _, err := tx.ExecContext(ctx, "insert into refund (id, amount) values ($1, 1000)", id); err != nil {
				return "", err
			}
			return id, hooks.Send(ctx, tx, webhook.Event{Tenant: "acme", Type: "refund.succeeded", Data: []byte(`{"type":"refund.succeeded","data":{"id":"` + id + `"}}`)})
		})
		check(err)
	}
	refund("1")
	refund("1") // a retry: it is replayed, and sends nothing
	refund("2")

	list, _, err := hooks.Endpoints().Deliveries(ctx, "acme", endpoint.ID, webhook.DeliveryFilter{})
	check(err)
	for _, d := range list {
		fmt.Println(d.Type, d.State)
	}
	// Output:
	// the secret is shown once: true
	// refund.succeeded waiting
	// refund.succeeded waiting
}
