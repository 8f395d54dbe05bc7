package receipt

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/oncelib/once/gateway/receipt"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/torture/harness"
	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/store/sqlplane"
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
	s := &service{Database: harness.Migrated(tb, kind, []migration.Set{receipt.Migrations}, charge)}
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
	cfg := receipt.Config{Wait: wait, MaxBody: 1000}
	if s.Kind == harness.Pgx {
		store, _ := harness.OpenPgx(tb, s.Database)
		return receipt.New(store, cfg)
	}
	store, _ := harness.OpenSQL(tb, s.Database)
	return receipt.New(store, cfg)
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
