package webhook_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"net/http"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store/sqlstore"
	"github.com/oncelib/once/webhook"
)

func ExampleHooks_Send() { //nolint:testableexamples // it needs a database: integration/hooks has one that runs
	ctx := context.Background()
	var db *sql.DB // of sqlstore.Open
	var key []byte // 32 bytes, from where your secrets are
	if err := sqlstore.Migrate(ctx, db, webhook.Migrations); err != nil {
		log.Panic(err)
	}
	s, err := sqlstore.New(ctx, db, sqlstore.Config{})
	if err != nil {
		log.Panic(err)
	}
	encrypter, err := once.NewEncrypter(key)
	if err != nil {
		log.Panic(err)
	}
	hooks := webhook.New(s, webhook.Config{Encrypter: encrypter})
	relay := hooks.Relay(webhook.RelayConfig{}) // in any number of processes
	engine := once.New(s, once.Config{AfterCommit: relay.Wake})
	go func() { log.Panic(relay.Run(ctx)) }() // an error says that it cannot work at all

	endpoint, secret, err := hooks.Endpoints().Create(ctx, webhook.Endpoint{
		Tenant: "acme", URL: "https://acme.example/hooks", Types: []string{"refund.*"},
	})
	if err != nil {
		log.Panic(err)
	}
	fmt.Println("show it once:", endpoint.ID, secret)

	op := once.Operation{Scope: "acme POST /refunds", Key: "8e03978e"}
	_, err = once.Do(ctx, engine, op, func(ctx context.Context, tx *sql.Tx) (string, error) {
		if _, err := tx.ExecContext(ctx, "insert into refund (id, amount) values ('re_1', 1000)"); err != nil {
			return "", err
		}
		body := []byte(`{"type":"refund.succeeded","timestamp":"2026-01-01T00:00:00Z","data":{"id":"re_1"}}`)
		return "re_1", hooks.Send(ctx, tx, webhook.Event{Tenant: "acme", Type: "refund.succeeded", Data: body})
	})
	if err != nil {
		log.Print(err)
	}
}

func ExampleHooks_Handler() { //nolint:testableexamples // it needs a database
	var hooks *webhook.Hooks[*sql.Tx]
	authenticate := func(h http.Handler) http.Handler { return h } // yours
	tenantOf := func(r *http.Request) string { return r.Host[:0] } // what authenticate has found out; "" is answered 401
	http.Handle("/webhooks/", authenticate(hooks.Handler("/webhooks", tenantOf)))
}

func ExampleEndpoints_Rotate() { //nolint:testableexamples // it needs a database
	var endpoints *webhook.Endpoints
	ctx := context.Background()
	secret := webhook.NewSecret() // kept before, so that a lost answer loses nothing
	_, _, err := endpoints.Rotate(ctx, "acme", "ep_0198", webhook.Rotation{Secret: secret, Overlap: 24 * 60 * 60 * 1e9})
	if errors.Is(err, webhook.ErrRotating) {
		fmt.Println("the secret before this one still signs")
	}
}
