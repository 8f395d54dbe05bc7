package receipt

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/oncelib/once/gateway"
	"github.com/oncelib/once/gateway/receipt"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/storetest"
)

func must(tb testing.TB, err error) { tb.Helper(); harness.Must(tb, err) }

// charge is the table of the service. It has no unique key: only the receipt keeps a charge from being committed twice.
const charge = "create table charge (operation varchar(255) not null)"

// service is a database of a service, which knows nothing of once: it opens it without a store.
type service struct {
	harness.Database

	db      *sql.DB
	dialect sqlplane.Dialect
}

func newService(tb testing.TB, kind string) *service {
	tb.Helper()
	return serviceOn(tb, harness.Migrated(tb, kind, []migration.Set{receipt.Migrations}, charge))
}

func serviceOn(tb testing.TB, d harness.Database) *service {
	tb.Helper()
	s := &service{Database: d}
	s.dialect = map[string]sqlplane.Dialect{"pgx": sqlplane.PostgreSQL, "mysql": sqlplane.MySQL, "sqlite": sqlplane.SQLite}[s.Driver()]
	var err error
	s.db, err = sql.Open(s.Driver(), s.DSN)
	must(tb, err)
	tb.Cleanup(func() { _ = s.db.Close() })
	return s
}

// table opens the receipts of the service as a gateway does.
func (s *service) table(tb testing.TB, wait time.Duration) *receipt.Table {
	tb.Helper()
	t, _ := s.faulty(tb, wait)
	return t
}

// faults is a store that fails where it is told to.
type faults interface {
	Arm(storetest.Plan)
	Heal() []storetest.Point
}

// faulty is table with a store that can be told to fail.
func (s *service) faulty(tb testing.TB, wait time.Duration) (*receipt.Table, faults) {
	tb.Helper()
	return s.faultyBy(tb, receipt.Config{Wait: wait, MaxBody: 1000})
}

func (s *service) faultyBy(tb testing.TB, cfg receipt.Config) (*receipt.Table, faults) {
	tb.Helper()
	if s.Kind == harness.Pgx {
		store, _ := harness.OpenPgx(tb, s.Database)
		f := storetest.NewFaults(store)
		return receipt.New(f, cfg), f
	}
	store, _ := harness.OpenSQL(tb, s.Database)
	f := storetest.NewFaults(store)
	return receipt.New(f, cfg), f
}

// work does the work of an operation in a transaction, with its receipt, and leaves the transaction open.
func (s *service) work(ctx context.Context, operation, body string) (*sql.Tx, error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	if _, err = tx.ExecContext(ctx, dialect.Text(s.dialect, "insert into charge (operation) values (?)"), operation); err == nil {
		// the line of the service, as the documents have it
		_, err = tx.ExecContext(ctx, dialect.Text(s.dialect, "insert into once_receipt (operation, fingerprint, status, body) values (?, ?, 201, ?)"), operation, "f-"+operation, []byte(body))
	}
	if err != nil {
		_ = tx.Rollback()
		return nil, err
	}
	return tx, nil
}

// charges is how often an operation took effect.
func (s *service) charges(tb testing.TB, operation string) (n int) {
	tb.Helper()
	must(tb, s.db.QueryRowContext(tb.Context(), dialect.Text(s.dialect, "select count(*) from charge where operation = ?"), operation).Scan(&n))
	return n
}

func (s *service) exec(tb testing.TB, query string, args ...any) {
	tb.Helper()
	_, err := s.db.ExecContext(tb.Context(), dialect.Text(s.dialect, query), args...)
	must(tb, err)
}

// finished has the service do the work of an operation, and reports whether it could commit.
func (s *service) finished(ctx context.Context, operation string) bool {
	tx, err := s.work(ctx, operation, "{}")
	return err == nil && tx.Commit() == nil
}

// judge compares the verdict of a Settle with the effects, and with what the service can do afterwards.
func (s *service) judge(t *testing.T, operation string, verdict gateway.Receipt) {
	t.Helper()
	s.finished(t.Context(), operation) // a forward that was slow
	want := 1
	if verdict.Tombstone {
		want = 0
	}
	if n := s.charges(t, operation); n != want {
		t.Errorf("%s, %s: settled as %+v, and it took effect %d times", s.Kind, operation, verdict, n)
	}
}

// untilWaiting waits until a tombstone waits for a lock of the service. On SQLite nothing tells. On MySQL the statement is under way:
// innodb_trx would tell more, but says the same for ever if it is asked more often than every 100 ms.
func (s *service) untilWaiting(t *testing.T) {
	t.Helper()
	query := map[sqlplane.Dialect]string{
		sqlplane.PostgreSQL: "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
		sqlplane.MySQL:      "select count(*) from information_schema.processlist where db = database() and id <> connection_id() and info like 'insert into once_receipt%'",
	}[s.dialect]
	if query == "" {
		return
	}
	harness.Until(t, func() error {
		var n int
		err := s.db.QueryRowContext(t.Context(), query).Scan(&n)
		if err == nil && n == 0 {
			err = errors.New("no tombstone waits for a lock")
		}
		return err
	})
}
