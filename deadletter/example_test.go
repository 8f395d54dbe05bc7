package deadletter_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"time"

	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/store/sqlstore"
)

func ExampleLetters_Redrive() { //nolint:testableexamples // it needs a database: integration/deadletter has tests of it
	ctx := context.Background()
	var db *sql.DB // of sqlstore.Open
	if err := sqlstore.Migrate(ctx, db, operate.Migrations, outbox.Migrations, deadletter.Migrations); err != nil {
		log.Panic(err)
	}
	s, err := sqlstore.New(ctx, db, sqlstore.Config{})
	if err != nil {
		log.Panic(err)
	}
	letters := deadletter.New(s, deadletter.Config{})
	groups, err := letters.Groups(ctx, deadletter.Filter{})
	if err != nil || len(groups) == 0 {
		log.Panic(err)
	}
	redrive, err := letters.Redrive(ctx, deadletter.Filter{Cause: groups[0].Cause}, deadletter.RedriveOptions{
		Who: "ada", Reason: "order service is repaired", Canary: true, Rate: 50,
	})
	if err != nil {
		log.Panic(err)
	}
	fmt.Println(redrive.State, redrive.Total)
}

func ExampleLetters_relay() { //nolint:testableexamples // see above
	var box *outbox.Box[*sql.Tx]
	var publisher outbox.Publisher
	policy := &retry.Policy{Attempts: 20, Base: time.Second, Cap: 5 * time.Minute, Total: -1}
	relay := box.Relay(publisher, outbox.RelayConfig{DeadLetters: true, Policy: policy})
	_ = relay
}
