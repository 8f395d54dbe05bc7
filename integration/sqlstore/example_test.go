package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store/sqlstore"
)

// Operations that wait for an SQLite file share a COMMIT. Nothing else changes for them.
func Example_groupCommit() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "once-example-")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	db, err := sqlstore.Open("sqlite", "file:"+filepath.Join(dir, "app.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(5000)")
	if err != nil {
		panic(err)
	}
	defer db.Close()
	if err := sqlstore.Migrate(ctx, db); err != nil {
		panic(err)
	}
	if _, err := db.ExecContext(ctx, "create table mail (recipient text not null)"); err != nil {
		panic(err)
	}
	s, err := sqlstore.New(ctx, db, sqlstore.Config{GroupCommit: true})
	if err != nil {
		panic(err)
	}
	engine := once.New(s, once.Config{})

	var workers sync.WaitGroup
	for n := range 64 { // two for each mail
		workers.Go(func() {
			op := once.Operation{Scope: "mail", Key: once.DeriveKey("welcome", fmt.Sprint(n%32)), Wait: 10e9, Retain: once.Forever}
			_, err := once.Do(ctx, engine, op, func(ctx context.Context, tx *sql.Tx) (string, error) {
				_, err := tx.ExecContext(ctx, "insert into mail values ($1)", n%32)
				return "queued", err
			})
			if err != nil {
				panic(err)
			}
		})
	}
	workers.Wait()
	var mails int
	if err := db.QueryRowContext(ctx, "select count(*) from mail").Scan(&mails); err != nil {
		panic(err)
	}
	fmt.Println(mails, "mails")
	// Output: 32 mails
}
