package lease

import (
	"context"
	"database/sql"
	"net"
	"path/filepath"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/internal/torture/harness"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/pgxstore"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/sqlstore"
)

// on runs a test for each store, beside other tests.
func on(t *testing.T, test func(t *testing.T, name string)) {
	t.Helper()
	t.Parallel()
	harness.Each(t, harness.Servers, test)
}

// database is a store as a process of its own has it.
type database struct {
	sqlplane.Database

	ops   store.Operations
	phase func(ctx context.Context, r *lease.Run, name string, write func(ctx context.Context, on sqlplane.Runner) (string, error)) (string, error)
	close func()
}

// opening is how a process reaches a database.
type opening struct {
	Store, DSN string

	conns     int                   // of the pool; 0: 8
	at        func(point string)    // is called before and after what the store is asked to do; nil: no
	dial      pgconnDial            // to a server; nil: the usual
	configure func(*pgxpool.Config) // pgx; nil: no
}

// open opens the store.
func (o opening) open(ctx context.Context) (database, error) {
	if o.at == nil {
		o.at = func(string) {}
	}
	if o.conns == 0 {
		o.conns = 8
	}
	if o.Store == harness.Pgx {
		cfg, err := pgxpool.ParseConfig(o.DSN)
		if err != nil {
			return database{}, err
		}
		cfg.MaxConns = int32(o.conns)
		if o.dial != nil {
			cfg.ConnConfig.DialFunc = o.dial
		}
		if o.configure != nil {
			o.configure(cfg)
		}
		pool, err := pgxpool.NewWithConfig(ctx, cfg)
		if err != nil {
			return database{}, err
		}
		return databaseOn[pgx.Tx](pgxstore.New(pool, pgxstore.Config{}), o.at, pool.Close), nil
	}
	db, err := o.openSQL()
	if err != nil {
		return database{}, err
	}
	closeDB := func() { _ = db.Close() }
	s, err := sqlstore.New(ctx, db, sqlstore.Config{})
	if err != nil {
		closeDB()
		return database{}, err
	}
	return databaseOn[*sql.Tx](s, o.at, closeDB), nil
}

func (o opening) openSQL() (*sql.DB, error) {
	drivers := map[string]string{harness.Postgres: "pgx", harness.SQLite: "sqlite", harness.MariaDB: "mysql", harness.MySQL: "mysql"}
	dsn := o.DSN
	if o.dial != nil {
		var err error
		if dsn, err = o.dialed(); err != nil {
			return nil, err
		}
	}
	db, err := sqlstore.Open(drivers[o.Store], dsn)
	if err == nil && o.conns > 0 {
		db.SetMaxOpenConns(o.conns)
		db.SetMaxIdleConns(o.conns)
	}
	return db, err
}

// dialed is the name of a source whose connections o.dial makes.
func (o opening) dialed() (dsn string, err error) {
	switch o.Store {
	case harness.Postgres:
		cfg, err := pgx.ParseConfig(o.DSN)
		if err != nil {
			return "", err
		}
		cfg.DialFunc = o.dial
		return stdlib.RegisterConnConfig(cfg), nil
	case harness.MariaDB, harness.MySQL:
		cfg, err := mysql.ParseDSN(o.DSN)
		if err != nil {
			return "", err
		}
		address := cfg.Addr
		cfg.Net = "of " + cfg.DBName
		mysql.RegisterDialContext(cfg.Net, func(ctx context.Context, _ string) (net.Conn, error) { return o.dial(ctx, "tcp", address) })
		return cfg.FormatDSN(), nil
	}
	return o.DSN, nil
}

func databaseOn[TX any](s sqlStore[TX], at func(string), closeDB func()) database {
	points := &pointStore[TX]{sqlStore: s, at: at}
	return database{Database: s, ops: points, close: closeDB, phase: func(ctx context.Context, r *lease.Run, name string, write func(context.Context, sqlplane.Runner) (string, error)) (string, error) {
		return lease.Tx(ctx, r, points, name, func(ctx context.Context, tx TX) (string, error) { return write(ctx, points.On(tx)) })
	}}
}

// newDatabase makes a database with the tables of once and one for what phases write.
func newDatabase(tb testing.TB, name string) opening {
	tb.Helper()
	o := opening{Store: name}
	switch name {
	case harness.SQLite:
		o.DSN = "file:" + filepath.Join(tb.TempDir(), "lease.db") + "?_pragma=journal_mode(WAL)&_pragma=busy_timeout(60000)"
	case harness.MariaDB:
		o.DSN = testenv.NewMariaDB(tb)
	case harness.MySQL:
		o.DSN = testenv.NewMySQL(tb)
	default:
		o.DSN = testenv.NewDatabase(tb)
	}
	o.migrate(tb)
	return o
}

func (o opening) migrate(tb testing.TB) {
	tb.Helper()
	if o.Store == harness.Pgx {
		pool, err := pgxpool.New(tb.Context(), o.DSN)
		must(tb, err)
		defer pool.Close()
		must(tb, pgxstore.Migrate(tb.Context(), pool))
	} else {
		db, err := o.openSQL()
		must(tb, err)
		defer func() { _ = db.Close() }()
		must(tb, sqlstore.Migrate(tb.Context(), db))
	}
	db := o.mustOpen(tb)
	defer db.close()
	// What phases write has no unique key: only the lease keeps a phase from being committed twice.
	_, err := db.Pool().Exec(tb.Context(), db.text("create table effect (operation varchar(200) not null, phase varchar(100) not null, value varchar(200) not null)"))
	must(tb, err)
}

func (o opening) mustOpen(tb testing.TB) database {
	tb.Helper()
	db, err := o.open(tb.Context())
	must(tb, err)
	return db
}

// text is a statement in the dialect of the store.
func (d database) text(query string, args ...any) store.Statement {
	return store.Statement{SQL: dialect.Text(d.Dialect(), query), Args: args}
}
