package payments

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "modernc.org/sqlite" // driver "sqlite"

	"github.com/oncelib/once/attemptlog"
	"github.com/oncelib/once/cmd/once/internal/mysqlurl"
	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/gauge"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/store/pgxstore"
	"github.com/oncelib/once/store/sqlstore"
)

// DB is an open database of any kind. The differences between databases are in its functions; everything above is written once.
type DB struct {
	protect func(cfg Config) protected
	receive func(ctx context.Context, from Consumer, cfg ReceiverConfig) error
	booking func(cfg ReceiverConfig) (http.Handler, func(context.Context) error)
	inTx    func(ctx context.Context, readOnly bool, fn func(queries) error) error
	lock    string                     // a statement that blocks other migrations until the transaction ends
	unlock  string                     // the statement that ends the lock before the end of the transaction; "" if none is needed
	ddl     func(text string) []string // converts a migration to the SQL of the database; nil if it needs no conversion
	exists  func(err error) bool       // an error says that an object of a migration exists already; nil if that cannot happen
	gauges  []gauge.Source
	close   func() error
}

// Open opens "sqlite:PATH", "postgres://user@host/name" or "mysql://user@host/name". The last one may also be a MariaDB. It migrates the tables of
// the service and of once. Several processes may do so at the same time.
func Open(ctx context.Context, dsn string) (*DB, error) { return open(ctx, dsn, false) }

// OpenEvents is [Open] for a service that adds an event to an outbox for each charge, refund and
// voided refund, in the same transaction, and for the receiver of these events.
func OpenEvents(ctx context.Context, dsn string) (*DB, error) { return open(ctx, dsn, true) }

func open(ctx context.Context, dsn string, events bool) (*DB, error) {
	path, isFile := strings.CutPrefix(dsn, "sqlite:")
	var db *DB
	var err error
	switch {
	case isFile && path != "":
		db, err = openSQLite(ctx, path, events)
	case strings.HasPrefix(dsn, "postgres://"), strings.HasPrefix(dsn, "postgresql://"):
		db, err = openPostgres(ctx, dsn, events)
	case mysqlurl.Is(dsn):
		db, err = openMySQL(ctx, dsn, events)
	default:
		return nil, fmt.Errorf("%q is not a database that this program supports. Try: sqlite:payments.db, postgres://user@host/name or mysql://user@host/name", redact(dsn))
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", redact(dsn), err)
	}
	if err := migrate(ctx, db); err != nil {
		return nil, errors.Join(fmt.Errorf("migrate %s: %w", redact(dsn), err), db.Close())
	}
	return db, nil
}

// Close closes every connection.
func (db *DB) Close() error { return db.close() }

// Gauges returns the sources of gauges of the operations and messages in the database.
func (db *DB) Gauges() []gauge.Source { return db.gauges }

// shown are the tables that once keys show reads in addition to the store's.
var shown = []migration.Set{attemptlog.Migrations, operate.Migrations}

func tables(events bool) []migration.Set {
	if events {
		return append(slices.Clip(shown), outbox.Migrations, inbox.Migrations, deadletter.Migrations)
	}
	return shown
}

func openPostgres(ctx context.Context, dsn string, events bool) (*DB, error) {
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return nil, err
	}
	if err := pgxstore.Migrate(ctx, pool, tables(events)...); err != nil {
		pool.Close()
		return nil, err
	}
	s := pgxstore.New(pool, pgxstore.Config{})
	view, gauges := withEvents(s, func(tx pgx.Tx) queries { return pgxTx{tx} }, events)
	return &DB{
		protect: protection(s, view, !events),
		receive: receiving(s, view, func(from Consumer) consume[pgx.Tx] { return from.PGX }),
		booking: booking(s, view),
		inTx: func(ctx context.Context, readOnly bool, fn func(queries) error) error {
			var opts pgx.TxOptions
			if readOnly {
				opts = pgx.TxOptions{AccessMode: pgx.ReadOnly, IsoLevel: pgx.RepeatableRead}
			}
			return pgx.BeginTxFunc(ctx, pool, opts, func(tx pgx.Tx) error { return fn(view(tx)) })
		},
		lock:   "select pg_advisory_xact_lock(hashtextextended('payments migration', 0))",
		gauges: append(gauges, gauge.Pool(s)),
		close:  func() error { pool.Close(); return nil },
	}, nil
}

// pragmas: readers do not wait for the writer, an answered request survives a power cut, foreign keys are checked, a writer waits for another
// process, and a writing transaction takes the lock when it begins.
const pragmas = "?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=foreign_keys(1)&_pragma=busy_timeout(10000)&_txlock=immediate"

func openSQLite(ctx context.Context, path string, events bool) (*DB, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	db, err := sqlstore.Open("sqlite", "file:"+(&url.URL{Path: abs}).EscapedPath()+pragmas)
	if err != nil {
		return nil, err
	}
	return openSQL(ctx, db, func(tx *sql.Tx) queries { return sqlTx{tx} }, events)
}

func openSQL(ctx context.Context, db *sql.DB, view func(*sql.Tx) queries, events bool) (*DB, error) {
	if err := sqlstore.Migrate(ctx, db, tables(events)...); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	s, err := sqlstore.New(ctx, db, sqlstore.Config{})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	view, gauges := withEvents(s, view, events)
	return &DB{
		protect: protection(s, view, false),
		receive: receiving(s, view, func(from Consumer) consume[*sql.Tx] { return from.SQL }),
		booking: booking(s, view),
		inTx: func(ctx context.Context, readOnly bool, fn func(queries) error) error {
			tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: readOnly})
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback() }() // does nothing after Commit
			if err := fn(view(tx)); err != nil {
				return err
			}
			return tx.Commit()
		},
		gauges: append(gauges, gauge.Pool(s)),
		close:  db.Close,
	}, nil
}

// redact removes the password from a URL before it is shown.
func redact(dsn string) string {
	u, err := url.Parse(dsn)
	if err != nil {
		return "the database URL"
	}
	return u.Redacted()
}
