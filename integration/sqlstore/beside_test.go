package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store/sqlstore"
)

// TestGroupBesideOthers: while groups follow each other, other writers of the file get
// their turn: a transaction of the same *sql.DB, also one that is joined, and those of
// another process, with groups or without.
func TestGroupBesideOthers(t *testing.T) {
	besideOthers(t, sqlstore.Config{GroupCommit: true})
}

// TestSQLiteLineBesideOthers: the same where those of one process follow each other.
func TestSQLiteLineBesideOthers(t *testing.T) {
	besideOthers(t, sqlstore.Config{})
}

func besideOthers(t *testing.T, cfg sqlstore.Config) {
	ctx := t.Context()
	dsn := "file:" + filepath.Join(t.TempDir(), "beside.db") + "?_pragma=journal_mode(WAL)&_pragma=busy_timeout(60000)&_pragma=synchronous(FULL)"
	open := func(cfg sqlstore.Config) (*sql.DB, *sqlstore.Store) {
		db, err := sqlstore.Open("sqlite", dsn)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		if err := sqlstore.Migrate(ctx, db); err != nil {
			t.Fatal(err)
		}
		s, err := sqlstore.New(ctx, db, cfg)
		if err != nil {
			t.Fatal(err)
		}
		return db, s
	}
	db, s := open(cfg)
	if _, err := db.ExecContext(ctx, "create table charge (id varchar(100) primary key)"); err != nil {
		t.Fatal(err)
	}
	charge := func(key string) func(context.Context, *sql.Tx) (int, error) {
		return func(ctx context.Context, tx *sql.Tx) (int, error) {
			_, err := tx.ExecContext(ctx, "insert into charge values (?)", key)
			return 1, err
		}
	}
	do := func(e *once.Engine[*sql.Tx], key string) error {
		_, err := once.Do(ctx, e, once.Operation{Scope: "beside", Key: key}, charge(key))
		return err
	}
	var members sync.WaitGroup
	var stop atomic.Bool
	var done atomic.Int64
	e := once.New(s, once.Config{})
	for i := range 16 {
		members.Go(func() {
			for n := 0; !stop.Load(); n++ {
				if err := do(e, fmt.Sprintf("member-%d-%d", i, n)); err != nil {
					t.Error(err)
					return
				}
				done.Add(1)
			}
		})
	}
	_, plain := open(sqlstore.Config{})
	_, other := open(sqlstore.Config{GroupCommit: true})
	one, two := once.New(plain, once.Config{}), once.New(other, once.Config{})
	var others sync.WaitGroup
	for name, write := range map[string]func(key string) error{
		"statement": func(key string) error {
			_, err := db.ExecContext(ctx, "insert into charge values (?)", key)
			return err
		},
		"join": func(key string) error {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback() }()
			if _, err = once.Join(ctx, e, tx, once.Operation{Scope: "beside", Key: key}, charge(key)); err != nil {
				return err
			}
			return tx.Commit()
		},
		"another process":              func(key string) error { return do(one, key) },
		"another process, with groups": func(key string) error { return do(two, key) },
	} {
		others.Go(func() {
			for n := range 5 {
				key := fmt.Sprint(name, n)
				if err := write(key); err != nil {
					t.Errorf("%s: %v", key, err)
				}
				if found := count(t, db, "select count(*) from charge where id = $1", key); found != 1 {
					t.Errorf("%s: %d effects", key, found)
				}
			}
		})
	}
	others.Wait()
	stop.Store(true)
	members.Wait()
	if done.Load() == 0 || int64(count(t, db, "select count(*) from charge where id like 'member%'")) != done.Load() {
		t.Errorf("%d members were answered", done.Load())
	}
}
