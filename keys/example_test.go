package keys_test

import (
	"context"
	"fmt"
	"log"

	"github.com/oncelib/once/keys"
	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/store/sqlstore"
)

// A service answers a request for erasure. There is no output here: the module has
// no driver.
func ExampleTable_Forget() {
	db, err := sqlstore.Open("pgx", "postgres://app@db/app")
	if err != nil {
		log.Fatal(err)
	}
	table, err := keys.Open(db, migration.PostgreSQL)
	if err != nil {
		log.Fatal(err)
	}
	detail, err := table.Forget(context.Background(), keys.Order{
		Scope: "acme POST /refunds", Key: "8e03978e",
		Who: "privacy service", Reason: "request 4711 for erasure",
	})
	fmt.Println(detail, err)
}
