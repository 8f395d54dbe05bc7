package main

import (
	"context"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/cmd/once/internal/command"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store/pgxstore"
	"github.com/oncelib/once/store/sqlplane"
)

// nativePgx in a URL has the program of a test read operations through pgxstore, as a service
// does that has a pgx pool.
const nativePgx = "application_name=native_pgx"

// onAll runs test on every database, and on PostgreSQL through pgxstore as well.
func onAll(t *testing.T, test func(t *testing.T, db string)) {
	t.Helper()
	onEach(t, test)
	t.Run("pgx", func(t *testing.T) {
		byLot(t)
		u, err := url.Parse(testenv.NewDatabase(t))
		if err != nil {
			t.Fatal(err)
		}
		u.RawQuery = strings.TrimPrefix(u.RawQuery+"&"+nativePgx, "&")
		test(t, u.String())
	})
}

// mainOnPgx is the program, if its arguments say that it reads through pgxstore.
func mainOnPgx() {
	if !slices.ContainsFunc(os.Args, func(arg string) bool { return strings.Contains(arg, nativePgx) }) {
		return
	}
	m := command.New()
	m.OpenStore = func(ctx context.Context, db *cli.Database) (sqlplane.Database, error) {
		pool, err := pgxpool.New(ctx, db.DSN)
		if err != nil {
			return nil, err
		}
		return pgxstore.New(pool, pgxstore.Config{}), nil
	}
	os.Exit(m.Run(context.Background(), os.Args[1:]))
}
