package operate_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/oncelib/once"
	"github.com/oncelib/once/attemptlog"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/store/sqlstore"
)

// A service logs its attempts; an operator looks, and answers a request for erasure.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "once")
	check(err)
	defer func() { check(os.RemoveAll(dir)) }()
	db, err := sqlstore.Open("sqlite", "file:"+filepath.Join(dir, "app.db")+"?_pragma=busy_timeout(5000)")
	check(err)
	defer func() { check(db.Close()) }()
	check(sqlstore.Migrate(ctx, db, attemptlog.Migrations, operate.Migrations))
	s, err := sqlstore.New(ctx, db, sqlstore.Config{})
	check(err)

	attempts := attemptlog.New(s, attemptlog.Config{})
	engine := once.New(s, once.Config{Observer: attempts})
	op := once.Operation{Scope: "acme refunds", Key: "k1"}
	answers := []error{fmt.Errorf("no answer from the bank"), nil, nil}
	for _, answer := range answers {
		_, _ = once.Do(ctx, engine, op, func(context.Context, *sql.Tx) (string, error) { return "re_1", answer })
	}
	check(attempts.Close(ctx))

	operator := operate.NewKeys(s)
	tl, err := operator.Timeline(ctx, op.Scope, op.Key, 10)
	check(err)
	for _, a := range tl.Attempts {
		fmt.Printf("%s: %s -> %s\n", a.Outcome, a.From, a.To)
	}
	fmt.Println(operator.Forget(ctx, operate.By{Who: "ada", Reason: "request 4711"}, operate.ForgetRequest{Scope: op.Scope, Key: op.Key}))
	_, err = once.Do(ctx, engine, op, func(context.Context, *sql.Tx) (string, error) { return "", nil })
	fmt.Println(once.CodeOf(err))
	// Output:
	// failed: absent -> absent
	// executed: absent -> done
	// replayed: done -> done
	// done: 6 bytes of its result erased <nil>
	// result_unavailable
}

func check(err error) {
	if err != nil {
		log.Panic(err)
	}
}
