package harness

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"path/filepath"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite" // the driver of the kinds SQLite and Group

	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/store/pgxstore"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/sqlstore"
)

// The kinds of databases, each with the store that is used on it. Subtests have these names.
const (
	Pgx      = "pgxstore"
	SQLite   = "SQLite"
	Group    = "SQLite, GroupCommit"
	Postgres = "PostgreSQL, sqlstore"
	MariaDB  = "MariaDB"
	MySQL    = "MySQL"
)

// SQL are the kinds that package sqlstore is used on.
var SQL = []string{SQLite, Group, Postgres, MariaDB, MySQL}

// Store is a store with transactions and tables.
type Store[TX any] interface {
	store.Store[TX]
	sqlplane.SQL[TX]
}

// Database is a database of a kind. It can be a part of the plan of a [Child].
type Database struct{ Kind, DSN string }

// New makes an empty database.
func New(tb testing.TB, kind string) Database {
	tb.Helper()
	switch kind {
	case SQLite, Group:
		return SQLiteFile(kind, filepath.Join(tb.TempDir(), "test.db"))
	case MariaDB:
		return Database{kind, testenv.NewMariaDB(tb)}
	case MySQL:
		return Database{kind, testenv.NewMySQL(tb)}
	}
	return Database{kind, testenv.NewDatabase(tb)}
}

// SQLiteFile is a database in a file.
func SQLiteFile(kind, file string) Database {
	return Database{kind, "file:" + file + "?_pragma=journal_mode(WAL)&_pragma=busy_timeout(60000)"}
}

// Migrated makes a database with tables of capabilities, and others that its statements create.
func Migrated(tb testing.TB, kind string, sets []migration.Set, statements ...string) Database {
	tb.Helper()
	d := New(tb, kind)
	Must(tb, d.Migrate(tb.Context(), sets, statements...))
	return d
}

// Migrate creates tables.
func (d Database) Migrate(ctx context.Context, sets []migration.Set, statements ...string) error {
	if d.Kind == Pgx {
		pool, err := d.Pool(ctx)
		if err != nil {
			return err
		}
		defer pool.Close()
		err = pgxstore.Migrate(ctx, pool, sets...)
		for _, s := range statements {
			if err == nil {
				_, err = pool.Exec(ctx, s)
			}
		}
		return err
	}
	db, err := d.DB()
	if err != nil {
		return err
	}
	err = sqlstore.Migrate(ctx, db, sets...)
	for _, s := range statements {
		if err == nil {
			_, err = db.ExecContext(ctx, s)
		}
	}
	return errors.Join(err, db.Close())
}

// conns is how many connections a pool has.
const conns = 8

// Pool opens a database of the kind Pgx. Each of configure changes how.
func (d Database) Pool(ctx context.Context, configure ...func(*pgxpool.Config)) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(d.DSN)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = conns
	for _, c := range configure {
		c(cfg)
	}
	return pgxpool.NewWithConfig(ctx, cfg)
}

// Dial makes a connection to a server.
type Dial = func(ctx context.Context, network, address string) (net.Conn, error)

// Driver is the name of the driver of database/sql for the kind.
func (d Database) Driver() string {
	return map[string]string{Pgx: "pgx", Postgres: "pgx", SQLite: "sqlite", Group: "sqlite", MariaDB: "mysql", MySQL: "mysql"}[d.Kind]
}

// Interpolated is the database with a driver that prepares no statement: none has a round trip that is hidden in that of another.
func (d Database) Interpolated() Database {
	if d.Driver() == "mysql" {
		d.DSN += "?interpolateParams=true"
	}
	return d
}

// DB opens the database through database/sql.
func (d Database) DB() (*sql.DB, error) { return sqlstore.Open(d.Driver(), d.DSN) }

// DialedDB is DB with connections to the server that dial makes.
func (d Database) DialedDB(dial Dial) (*sql.DB, error) {
	if d.Kind == Postgres {
		cfg, err := pgx.ParseConfig(d.DSN)
		if err != nil {
			return nil, err
		}
		cfg.DialFunc = dial
		return sqlstore.OpenDB(sqlplane.PostgreSQL, stdlib.GetConnector(*cfg)), nil
	}
	cfg, err := mysql.ParseDSN(d.DSN)
	if err != nil {
		return nil, err
	}
	cfg.DialFunc = dial
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	return sqlstore.OpenDB(sqlplane.MySQL, connector), nil
}

// SQLStore opens a database of another kind than Pgx, and its store.
func (d Database) SQLStore(ctx context.Context) (*sqlstore.Store, *sql.DB, error) {
	return d.storeOn(ctx, d.DB)
}

// DialedStore is SQLStore with connections to the server that dial makes, if it is not nil.
func (d Database) DialedStore(ctx context.Context, dial Dial) (*sqlstore.Store, *sql.DB, error) {
	if dial == nil || d.Driver() == "sqlite" {
		return d.SQLStore(ctx)
	}
	return d.storeOn(ctx, func() (*sql.DB, error) { return d.DialedDB(dial) })
}

func (d Database) storeOn(ctx context.Context, open func() (*sql.DB, error)) (*sqlstore.Store, *sql.DB, error) {
	db, err := open()
	if err != nil {
		return nil, nil, err
	}
	s, err := sqlstore.New(ctx, db, sqlstore.Config{GroupCommit: d.Kind == Group})
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return s, db, nil
}

// Open opens the database with so many connections at most, and returns what closes it.
func (d Database) Open(ctx context.Context, conns int) (sqlplane.Database, func(), error) {
	if d.Kind == Pgx {
		pool, err := d.Pool(ctx, func(c *pgxpool.Config) { c.MaxConns = int32(conns) })
		if err != nil {
			return nil, nil, err
		}
		return pgxstore.New(pool, pgxstore.Config{}), pool.Close, nil
	}
	s, db, err := d.SQLStore(ctx)
	if err != nil {
		return nil, nil, err
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return s, func() { _ = db.Close() }, nil
}

// Use opens the database, and has one of two functions use its store: so a process does its part of a test.
func (d Database) Use(ctx context.Context, onPgx func(Store[pgx.Tx]) error, onSQL func(Store[*sql.Tx]) error) error {
	if d.Kind == Pgx {
		pool, err := d.Pool(ctx)
		if err != nil {
			return err
		}
		defer pool.Close()
		return onPgx(pgxstore.New(pool, pgxstore.Config{}))
	}
	s, db, err := d.SQLStore(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	return onSQL(s)
}

// OpenPgx opens a database until the test ends.
func OpenPgx(tb testing.TB, d Database, configure ...func(*pgxpool.Config)) (*pgxstore.Store, *pgxpool.Pool) {
	tb.Helper()
	pool, err := d.Pool(tb.Context(), configure...)
	Must(tb, err)
	tb.Cleanup(pool.Close)
	return pgxstore.New(pool, pgxstore.Config{}), pool
}

// OpenSQL opens a database of another kind than Pgx until the test ends.
func OpenSQL(tb testing.TB, d Database) (*sqlstore.Store, *sql.DB) {
	tb.Helper()
	return OpenDialed(tb, d, nil)
}

// OpenDialed is [OpenSQL] with connections to the server that dial makes.
func OpenDialed(tb testing.TB, d Database, dial Dial) (*sqlstore.Store, *sql.DB) {
	tb.Helper()
	s, db, err := d.DialedStore(tb.Context(), dial)
	Must(tb, err)
	tb.Cleanup(func() { _ = db.Close() })
	return s, db
}

// Text is a statement in the dialect of a database.
func Text(db sqlplane.Database, query string, args ...any) store.Statement {
	return store.Statement{SQL: dialect.Text(db.Dialect(), query), Args: args}
}

// Exec runs a statement, and returns how many rows it has changed.
func Exec(tb testing.TB, db sqlplane.Database, query string, args ...any) int64 {
	tb.Helper()
	n, err := db.Pool().Exec(tb.Context(), Text(db, query, args...))
	Must(tb, err)
	return n
}

// Count returns the number that a query finds.
func Count(tb testing.TB, db sqlplane.Database, query string, args ...any) (n int) {
	tb.Helper()
	Must(tb, db.Pool().Query(tb.Context(), Text(db, query, args...), func(row sqlplane.Row) error { return row.Scan(&n) }))
	return n
}

// Must ends a test that has met an error.
func Must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
