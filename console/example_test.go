package console_test

import (
	"context"
	"database/sql"
	"errors"
	"log"
	"net/http"

	"github.com/oncelib/once"
	"github.com/oncelib/once/console"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/store/sqlstore"
)

func ExampleHandler() { //nolint:testableexamples // it needs a database: integration/console has tests of it
	var db *sql.DB // of sqlstore.Open
	s, err := sqlstore.New(context.Background(), db, sqlstore.Config{})
	if err != nil {
		log.Panic(err)
	}
	engine := once.New(s, once.Config{})
	who := func(r *http.Request) (console.User, error) {
		name, _, ok := r.BasicAuth() // checked before, by the middleware of the service
		if !ok {
			return console.User{}, errors.New("who is it?")
		}
		return console.User{Name: name, Role: console.RoleOperator}, nil
	}
	mux := http.NewServeMux()
	op := operate.New(s, operate.Config{Caches: []operate.Cache{engine}}) // s is the SQL store of the engine
	mux.Handle("/once/", console.Handler(console.Config{Operate: op, Prefix: "/once/", User: who}))
}
