package operate_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/attemptlog"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/pgxstore"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/sqlstore"
)

// TestServerKilled kills the server while requests run. Each of them gets its verdict
// all the same, and when the server is back, each has a row or is counted.
func TestServerKilled(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	t.Run("pgx", func(t *testing.T) {
		t.Parallel()
		server, dsn := startPostgres(t)
		pool, err := pgxpool.New(t.Context(), dsn)
		must(t, err)
		defer pool.Close()
		must(t, pgxstore.Migrate(t.Context(), pool, attemptlog.Migrations))
		db, err := sql.Open("pgx", dsn)
		must(t, err)
		defer func() { _ = db.Close() }()
		testOutage(t, pgxstore.New(pool, pgxstore.Config{}), db, server)
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		server, dsn := startPostgres(t)
		db, s := openSQL(t, "pgx", dsn)
		testOutage(t, s, db, server)
	})
	for _, kind := range []string{"mysql", "mariadb"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			testenv.Need(t, kind)
			server, err := testenv.StartMariaDB(t.Context(), testenv.MariaDBConfig{MySQL: kind == "mysql"})
			must(t, err)
			t.Cleanup(func() { must(t, server.Close()) })
			must(t, server.CreateDatabase("app"))
			db, s := openSQL(t, "mysql", server.DSN("app")+"?interpolateParams=true")
			testOutage(t, s, db, server)
		})
	}
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		dsn := "file:" + filepath.Join(t.TempDir(), "test.db") + "?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)"
		db, s := openSQL(t, "sqlite", dsn)
		testOutage(t, s, db, &lockedFile{dsn: dsn})
	})
}

func startPostgres(t *testing.T) (s *testenv.Postgres, dsn string) {
	t.Helper()
	testenv.Need(t, "postgresql")
	s, err := testenv.StartPostgres(t.Context(), testenv.PostgresConfig{})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	must(t, s.CreateDatabase("app"))
	return s, s.URL("app")
}

func openSQL(t *testing.T, driver, dsn string) (*sql.DB, *sqlstore.Store) {
	t.Helper()
	db, err := sqlstore.Open(driver, dsn)
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	must(t, sqlstore.Migrate(t.Context(), db, attemptlog.Migrations))
	s, err := sqlstore.New(t.Context(), db, sqlstore.Config{})
	must(t, err)
	return db, s
}

// lockedFile is an SQLite file that another process has for itself, which is its outage.
type lockedFile struct {
	dsn string
	db  *sql.DB
	tx  *sql.Tx
}

func (f *lockedFile) Kill() (err error) {
	if f.db, err = sql.Open("sqlite", f.dsn+"&_txlock=immediate"); err == nil {
		f.tx, err = f.db.BeginTx(context.Background(), nil)
	}
	return err
}

func (f *lockedFile) Restart(context.Context) error {
	return errors.Join(f.tx.Rollback(), f.db.Close())
}

// testOutage runs operations of s while its server is there, gone, and there again. db reads what has
// become of them.
func testOutage[TX any](t *testing.T, s interface {
	store.Store[TX]
	sqlplane.Database
}, db *sql.DB, server interface {
	Kill() error
	Restart(ctx context.Context) error
},
) {
	t.Helper()
	ctx := t.Context()
	failed := make(chan error, 100)
	l := attemptlog.New(s, attemptlog.Config{Batch: 8, Buffer: 64, Interval: 50 * time.Millisecond, Failed: func(err error) { failed <- err }})
	e := once.New(s, once.Config{Observer: l, Settle: 100 * time.Millisecond})
	call := func(i int, t store.Timeouts) error {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		_, err := once.Do(ctx, e, once.Operation{Scope: "s", Key: fmt.Sprint(i), Timeouts: t}, func(context.Context, TX) (int, error) { return i, nil })
		return err
	}
	calls, refused := 0, 0
	for ; calls < 20; calls++ {
		must(t, call(calls, store.Timeouts{}))
	}
	must(t, server.Kill())
	var wg sync.WaitGroup
	var mu sync.Mutex
	for range 4 {
		wg.Go(func() {
			for range 50 {
				mu.Lock()
				i := calls
				calls++
				mu.Unlock()
				err := call(i, store.Timeouts{Lock: 250 * time.Millisecond}) // SQLite waits for it
				mu.Lock()
				if once.EffectOf(err) == once.EffectNotApplied {
					refused++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if refused != 200 || l.Dropped() == 0 {
		t.Errorf("%d of 200 calls were told that nothing was applied, %d attempts dropped", refused, l.Dropped())
	}
	<-failed // the outage was noticed, and said
	must(t, server.Restart(ctx))
	must(t, call(calls, store.Timeouts{}))
	calls++
	must(t, l.Close(ctx))
	var rows, dropped, executed int
	must(t, db.QueryRowContext(ctx, "select sum(case when outcome <> 'dropped' then 1 else 0 end), sum(dropped), sum(case when outcome = 'executed' then 1 else 0 end) from once_attempt").Scan(&rows, &dropped, &executed))
	if rows+dropped != calls || int64(dropped) != l.Dropped() || executed < 20 {
		t.Errorf("%d rows, %d executed, %d dropped in rows and %d in all, of %d calls", rows, executed, dropped, l.Dropped(), calls)
	}
}
