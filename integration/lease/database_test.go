package lease

import (
	"cmp"
	"context"
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "modernc.org/sqlite"

	"github.com/oncelib/once/integration/harness"
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
	harness.Database

	conns     int                   // of the pool; 0: 8
	at        func(point string)    // is called before and after what the store is asked to do; nil: no
	dial      harness.Dial          // to a server; nil: the usual
	configure func(*pgxpool.Config) // pgx; nil: no
}

// open opens the store.
func (o opening) open(ctx context.Context) (database, error) {
	if o.at == nil {
		o.at = func(string) {}
	}
	o.conns = cmp.Or(o.conns, 8)
	if o.Kind == harness.Pgx {
		pool, err := o.Pool(ctx, func(cfg *pgxpool.Config) {
			cfg.MaxConns = int32(o.conns)
			if o.dial != nil {
				cfg.ConnConfig.DialFunc = o.dial
			}
			if o.configure != nil {
				o.configure(cfg)
			}
		})
		if err != nil {
			return database{}, err
		}
		return databaseOn[pgx.Tx](pgxstore.New(pool, pgxstore.Config{}), o.at, pool.Close), nil
	}
	s, db, err := o.openSQL(ctx)
	if err != nil {
		return database{}, err
	}
	return databaseOn[*sql.Tx](s, o.at, func() { _ = db.Close() }), nil
}

func (o opening) openSQL(ctx context.Context) (*sqlstore.Store, *sql.DB, error) {
	s, db, err := o.DialedStore(ctx, o.dial)
	if err == nil && o.conns > 0 {
		db.SetMaxOpenConns(o.conns)
		db.SetMaxIdleConns(o.conns)
	}
	return s, db, err
}

func databaseOn[TX any](s harness.Store[TX], at func(string), closeDB func()) database {
	points := &harness.LeasePoints[TX]{Points: harness.Points[TX]{Store: s, At: at}}
	return database{Database: s, ops: points, close: closeDB, phase: func(ctx context.Context, r *lease.Run, name string, write func(context.Context, sqlplane.Runner) (string, error)) (string, error) {
		return lease.InTx(ctx, r, points, name, func(ctx context.Context, tx TX) (string, error) { return write(ctx, points.On(tx)) })
	}}
}

// newDatabase makes a database with the tables of once and one for what phases write.
func newDatabase(tb testing.TB, kind string) opening {
	tb.Helper()
	o := opening{Database: harness.New(tb, kind)}
	o.migrate(tb)
	return o
}

func (o opening) migrate(tb testing.TB) {
	tb.Helper()
	// What phases write has no unique key: only the lease keeps a phase from being committed twice.
	must(tb, o.Migrate(tb.Context(), nil, "create table effect (operation varchar(200) not null, phase varchar(100) not null, value varchar(200) not null)"))
}

func (o opening) mustOpen(tb testing.TB) database {
	tb.Helper()
	db, err := o.open(tb.Context())
	must(tb, err)
	return db
}

// text is a statement in the dialect of the store.
func (d database) text(query string, args ...any) store.Statement {
	return harness.Text(d, query, args...)
}
