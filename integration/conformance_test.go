package integration

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlstore"
	"github.com/oncelib/once/store/storetest"
)

// TestConformance is the suite of all stores, for those whose drivers the root module
// must not know.
func TestConformance(t *testing.T) {
	t.Parallel()
	conform(t, harness.SQLite, harness.Group, harness.Postgres)
}

// TestConformanceInnoDB is the suite on MariaDB and on MySQL.
func TestConformanceInnoDB(t *testing.T) {
	t.Parallel()
	conform(t, harness.MariaDB, harness.MySQL)
}

// TestConformanceInnoDBWithoutPackets is the suite where each statement is a round trip of its own.
func TestConformanceInnoDBWithoutPackets(t *testing.T) {
	testenv.Prove(t)
	harness.Each(t, []string{harness.MariaDB, harness.MySQL}, func(t *testing.T, kind string) {
		t.Helper()
		h := conformanceOn(kind, func(tb testing.TB) string { tb.Helper(); return harness.New(tb, kind).DSN + "?multiStatements=false" })
		h.Brief = true
		storetest.Run(t, h)
	})
}

// conform has any call fail, and on SQLite any second one as well.
func conform(t *testing.T, kinds ...string) {
	t.Helper()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			h := conformanceOn(kind)
			h.Brief = kind != harness.SQLite
			storetest.Run(t, h)
		})
	}
}

// TestConformanceOfPairs is the suite with the pairs of faults, which take most of its time, on the other databases.
func TestConformanceOfPairs(t *testing.T) {
	testenv.Prove(t)
	harness.Each(t, harness.SQL[1:], func(t *testing.T, kind string) { t.Helper(); storetest.Run(t, conformanceOn(kind)) })
}

// TestConformanceWithoutLocks is the suite on a PostgreSQL whose advisory locks are granted to all: operations are claimed
// by their commits.
func TestConformanceWithoutLocks(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	h := conformanceOn(harness.Postgres, func(tb testing.TB) string {
		tb.Helper()
		dsn := harness.New(tb, harness.Postgres).DSN
		db, err := sqlstore.Open("pgx", dsn)
		if err != nil {
			tb.Fatal(err)
		}
		defer db.Close()
		if _, err := db.ExecContext(context.Background(), testenv.WithoutAdvisoryLocks); err != nil {
			tb.Fatal(err)
		}
		return dsn + "&search_path=" + testenv.WithoutAdvisoryLocksPath
	})
	h.ClaimsByCommit, h.Brief = true, true
	storetest.Run(t, h)
}

// TestConformanceOfOperations runs what a store without transactions must pass.
func TestConformanceOfOperations(t *testing.T) {
	testenv.Prove(t)
	storetest.RunOperations(t, conformanceOn(harness.SQLite).Operations())
}

// conformanceOn is what the suite needs to know about a kind of databases, which create may make.
func conformanceOn(kind string, create ...func(testing.TB) string) storetest.Harness[*sql.Tx] {
	back := "%[1]d"
	c := conformance{
		driver: harness.Database{Kind: kind}.Driver(), config: sqlstore.Config{GroupCommit: kind == harness.Group},
		create:  func(tb testing.TB) string { tb.Helper(); return harness.New(tb, kind).DSN },
		dialect: mysqlDialect,
	}
	one := kind == harness.SQLite || kind == harness.Group
	switch {
	case one:
		c.dialect = sqlitePlaceholders
		c.create = func(tb testing.TB) string {
			tb.Helper()
			return "file:" + filepath.Join(tb.TempDir(), "conformance.sqlite") +
				"?_pragma=busy_timeout(60000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"
		}
	case kind == harness.Postgres:
		c.dialect = func(query string) string { return query }
		back = "interval '%[1]d ms'"
	}
	if len(create) > 0 {
		c.create = create[0]
	}
	c.advance = func(d time.Duration) string {
		return fmt.Sprintf(strings.ReplaceAll("update once_operation set lease_until = lease_until - D, expires_at = expires_at - D, since = since - D", "D", back), d.Milliseconds())
	}
	h := c.harness()
	if h.OneWriter, h.OneLevel = one, one; one {
		h.Isolations = []store.Isolation{store.DefaultIsolation}
	} else {
		h.Isolations = []store.Isolation{store.DefaultIsolation, store.ReadCommitted, store.RepeatableRead, store.Serializable}
	}
	return h
}

// conformance is what differs between databases.
type conformance struct {
	driver  string
	config  sqlstore.Config
	create  func(testing.TB) string    // a new database
	dialect func(query string) string  // of a query with $1, $2, ...
	advance func(time.Duration) string // lets time pass for every record
}

const (
	insertEffect = "insert into effect (key) values ($1)"
	setSetting   = "insert into setting (key, value) values ($1, $2) on conflict (key) do update set value = excluded.value"
)

type handle struct {
	db  *sql.DB
	dsn string
}

func (c conformance) harness() storetest.Harness[*sql.Tx] {
	var handles sync.Map // store.Store[*sql.Tx] -> handle
	of := func(s store.Store[*sql.Tx]) handle {
		h, _ := handles.Load(s)
		return h.(handle)
	}
	open := func(tb testing.TB, dsn string, prepare func(context.Context, *sql.DB) error) store.Store[*sql.Tx] {
		tb.Helper()
		ctx := context.Background()
		db, err := sqlstore.Open(c.driver, dsn)
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { _ = db.Close() })
		db.SetMaxOpenConns(16)
		if err := prepare(ctx, db); err != nil {
			tb.Fatal(err)
		}
		s, err := sqlstore.New(ctx, db, c.config)
		if err != nil {
			tb.Fatal(err)
		}
		handles.Store(s, handle{db, dsn})
		return s
	}
	exec := func(ctx context.Context, tx *sql.Tx, query string, args ...any) error {
		_, err := tx.ExecContext(ctx, c.dialect(query), args...)
		return err
	}
	return storetest.Harness[*sql.Tx]{
		Open: func(tb testing.TB) store.Store[*sql.Tx] {
			tb.Helper()
			return open(tb, c.create(tb), c.prepareEffects)
		},
		Peer: func(tb testing.TB, s store.Store[*sql.Tx]) store.Store[*sql.Tx] {
			tb.Helper()
			return open(tb, of(s).dsn, func(context.Context, *sql.DB) error { return nil })
		},
		Advance: func(tb testing.TB, s store.Store[*sql.Tx], d time.Duration) {
			tb.Helper()
			if _, err := of(s).db.ExecContext(context.Background(), c.advance(d)); err != nil {
				tb.Fatal(err)
			}
		},
		Write: func(ctx context.Context, tx *sql.Tx, key string) error { return exec(ctx, tx, insertEffect, key) },
		Statement: func(key string) store.Statement {
			return store.Statement{SQL: c.dialect(insertEffect), Args: []any{key}}
		},
		Set: func(key, value string) store.Statement {
			return store.Statement{SQL: c.dialect(setSetting), Args: []any{key, value}}
		},
		Get: func(ctx context.Context, tx *sql.Tx, key string) (value string, err error) {
			err = tx.QueryRowContext(ctx, c.dialect("select value from setting where key = $1"), key).Scan(&value)
			return value, err
		},
		Fail: func(ctx context.Context, tx *sql.Tx) error { return exec(ctx, tx, "insert into single values (1)") },
		Effects: func(tb testing.TB, s store.Store[*sql.Tx], key string) (n int) {
			tb.Helper()
			if err := of(s).db.QueryRowContext(context.Background(), c.dialect("select count(*) from effect where key = $1"), key).Scan(&n); err != nil {
				tb.Fatal(err)
			}
			return n
		},
		Own: func(tb testing.TB, s store.Store[*sql.Tx]) (*sql.Tx, func(bool) error) {
			tb.Helper()
			tx, err := of(s).db.BeginTx(context.Background(), nil)
			if err != nil {
				tb.Fatal(err)
			}
			return tx, func(commit bool) error {
				if commit {
					return tx.Commit()
				}
				return tx.Rollback()
			}
		},
		End: func(_ context.Context, tx *sql.Tx) error { return tx.Commit() },
		Savepoint: func(ctx context.Context, tb testing.TB, tx *sql.Tx) (*sql.Tx, func(bool) error) {
			tb.Helper()
			if err := exec(ctx, tx, "savepoint one"); err != nil {
				tb.Fatal(err)
			}
			return tx, func(keep bool) error {
				if !keep {
					if err := exec(ctx, tx, "rollback to savepoint one"); err != nil {
						return err
					}
				}
				return exec(ctx, tx, "release savepoint one")
			}
		},
	}
}

func (c conformance) prepareEffects(ctx context.Context, db *sql.DB) error {
	if err := sqlstore.Migrate(ctx, db); err != nil {
		return err
	}
	for _, query := range []string{
		"create table effect (key text not null)", "create table setting (key varchar(255) primary key, value text not null)", "create table single (id integer primary key)", "insert into single values (1)",
	} {
		if _, err := db.ExecContext(ctx, c.dialect(query)); err != nil {
			return err
		}
	}
	return nil
}
