package attemptlog_test

import (
	"context"
	"database/sql"
	"log"

	"github.com/oncelib/once"
	"github.com/oncelib/once/attemptlog"
	"github.com/oncelib/once/store/sqlstore"
)

func ExampleNew() { //nolint:testableexamples // it needs a database: integration/operate has one that runs
	var db *sql.DB // of sqlstore.Open, and migrated
	ctx := context.Background()
	s, err := sqlstore.New(ctx, db, sqlstore.Config{})
	if err != nil {
		log.Panic(err)
	}
	attempts := attemptlog.New(s, attemptlog.Config{})
	engine := once.New(s, once.Config{Observer: attempts})

	_ = engine // serve requests

	if err := attempts.Close(ctx); err != nil { // when the server has stopped
		log.Print(err)
	}
}
