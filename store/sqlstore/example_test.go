package sqlstore_test

import (
	"context"
	"database/sql"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store/sqlstore"
)

// Where many callers write to one SQLite file, those who wait for it share one COMMIT.
// The driver is up to you: import _ "modernc.org/sqlite".
func ExampleConfig_groupCommit() { //nolint:testableexamples // there is no driver in this module
	open := func(ctx context.Context) (*once.Engine[*sql.Tx], error) {
		db, err := sqlstore.Open("sqlite", "file:app.db?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(5000)")
		if err != nil {
			return nil, err
		}
		if err := sqlstore.Migrate(ctx, db); err != nil {
			return nil, err
		}
		s, err := sqlstore.New(ctx, db, sqlstore.Config{GroupCommit: true})
		if err != nil {
			return nil, err
		}
		return once.New(s, once.Config{}), nil
	}
	_ = open
}

// The connections are there before the first request comes.
func ExampleStore_Warm() { //nolint:testableexamples // there is no driver in this module
	start := func(ctx context.Context, db *sql.DB) (*once.Engine[*sql.Tx], error) {
		db.SetMaxOpenConns(20)
		db.SetMaxIdleConns(20) // a sql.DB keeps two otherwise
		s, err := sqlstore.New(ctx, db, sqlstore.Config{})
		if err != nil {
			return nil, err
		}
		if err := s.Warm(ctx, 20); err != nil {
			return nil, err
		}
		return once.New(s, once.Config{}), nil
	}
	_ = start
}
