package oncetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/oncetest"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/store/pgxstore"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/sqlstore"
)

func TestMain(m *testing.M) {
	_ = mysql.SetLogger(&mysql.NopLogger{}) // of connections that are cut it says so
	testenv.Main(m)
}

// The tables of the strangers. A row of seen is a key that a handler without once knows.
var tables = []string{
	"create table refund (id integer primary key, account varchar(40), amount integer not null)",
	"create table account (name varchar(40) primary key, balance bigint not null, unique (name, balance))", // a part of a unique key, and more than a float64 has
	"insert into account values ('acme', 4000000000000000000)",
	"create table audit (what varchar(40))",
	"create table seen (name varchar(100) not null, state varchar(10) not null, answer varchar(100))",
	"create table mark (name varchar(100) primary key)",
}

// world is what a stranger's program has: a database and its driver.
type world[TX any] struct {
	t     testing.TB
	open  func(p *oncetest.Process) conn[TX] // without faults if p is nil
	plain sqlplane.Database                  // without faults
}

// conn is a pool of connections, and how a handler uses a driver.
type conn[TX any] struct {
	store  harness.Store[TX]
	pool   func(ctx context.Context, query string, args ...any) error // in a transaction of its own
	look   func(ctx context.Context, into *string, query string, args ...any) (found bool, err error)
	exec   func(ctx context.Context, tx TX, query string, args ...any) error
	own    func(ctx context.Context, fn func(tx TX) error) error // in a transaction that the handler commits
	commit func(ctx context.Context, tx TX) error
	nested func(ctx context.Context, tx TX, fn func(tx TX) error) error
}

// newDatabase makes a database of a kind. That of SQLite waits for no writer for long, as that of a test should.
func newDatabase(t testing.TB, kind string) harness.Database {
	t.Helper()
	d := harness.New(t, kind)
	statements := tables
	switch kind {
	case harness.SQLite:
		d.DSN = "file:" + filepath.Join(t.TempDir(), "strangers.db") + "?_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)&_pragma=busy_timeout(150)&_txlock=immediate"
	case harness.Pgx, harness.Postgres:
		statements = append([]string{strings.Replace(tables[0], "integer primary key", "bigint generated always as identity primary key", 1)}, tables[1:]...)
	default:
		statements = append([]string{strings.Replace(tables[0], "integer primary key", "bigint auto_increment primary key", 1)}, tables[1:]...)
	}
	harness.Must(t, d.Migrate(t.Context(), []migration.Set{outbox.Migrations, deadletter.Migrations, inbox.Migrations}, statements...))
	return d
}

// sqlWorld is a program on database/sql.
func sqlWorld(t testing.TB, d harness.Database) *world[*sql.Tx] {
	t.Helper()
	plain, _ := harness.OpenSQL(t, d)
	text := func(query string) string { return dialect.Text(plain.Dialect(), query) }
	return &world[*sql.Tx]{t: t, plain: plain, open: func(p *oncetest.Process) conn[*sql.Tx] {
		db := sqlDB(t, d, p)
		db.SetMaxOpenConns(connections)
		db.SetMaxIdleConns(connections)
		s, err := sqlstore.New(t.Context(), db, sqlstore.Config{})
		harness.Must(t, err)
		c := conn[*sql.Tx]{store: s}
		c.pool = func(ctx context.Context, query string, args ...any) error {
			_, err := db.ExecContext(ctx, text(query), args...)
			return err
		}
		c.look = func(ctx context.Context, into *string, query string, args ...any) (bool, error) {
			err := db.QueryRowContext(ctx, text(query), args...).Scan(into)
			if errors.Is(err, sql.ErrNoRows) {
				return false, nil
			}
			return err == nil, err
		}
		c.exec = func(ctx context.Context, tx *sql.Tx, query string, args ...any) error {
			_, err := tx.ExecContext(ctx, text(query), args...)
			return err
		}
		c.own = func(ctx context.Context, fn func(*sql.Tx) error) error {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback() }()
			if err := fn(tx); err != nil {
				return err
			}
			return tx.Commit()
		}
		c.commit = func(_ context.Context, tx *sql.Tx) error { return tx.Commit() }
		c.nested = func(ctx context.Context, tx *sql.Tx, fn func(*sql.Tx) error) error {
			if err := c.exec(ctx, tx, "savepoint part"); err != nil {
				return err
			}
			if err := fn(tx); err != nil {
				return errors.Join(err, c.exec(ctx, tx, "rollback to savepoint part"))
			}
			return c.exec(ctx, tx, "release savepoint part")
		}
		return c
	}}
}

// sqlDB opens a database on the connections of a process: SQLite by its driver, servers by what dials.
func sqlDB(t testing.TB, d harness.Database, p *oncetest.Process) *sql.DB {
	t.Helper()
	var db *sql.DB
	var err error
	switch {
	case p == nil:
		db, err = d.DB()
	case d.Kind == harness.SQLite:
		return p.Open(d.Driver(), d.DSN)
	default:
		db, err = d.DialedDB(p.Dial)
	}
	harness.Must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// pgxWorld is a program on pgx.
func pgxWorld(t testing.TB, d harness.Database) *world[pgx.Tx] {
	t.Helper()
	plain, _ := harness.OpenPgx(t, d)
	return &world[pgx.Tx]{t: t, plain: plain, open: func(p *oncetest.Process) conn[pgx.Tx] {
		pool, err := d.Pool(t.Context(), func(c *pgxpool.Config) {
			c.MaxConns = connections
			if p != nil {
				c.ConnConfig.DialFunc = p.Dial
			}
		})
		harness.Must(t, err)
		t.Cleanup(pool.Close)
		text := func(query string) string { return dialect.Text(sqlplane.PostgreSQL, query) }
		c := conn[pgx.Tx]{store: pgxstore.New(pool, pgxstore.Config{})}
		c.pool = func(ctx context.Context, query string, args ...any) error {
			_, err := pool.Exec(ctx, text(query), args...)
			return err
		}
		c.look = func(ctx context.Context, into *string, query string, args ...any) (bool, error) {
			err := pool.QueryRow(ctx, text(query), args...).Scan(into)
			if errors.Is(err, pgx.ErrNoRows) {
				return false, nil
			}
			return err == nil, err
		}
		c.exec = func(ctx context.Context, tx pgx.Tx, query string, args ...any) error {
			_, err := tx.Exec(ctx, text(query), args...)
			return err
		}
		c.own = func(ctx context.Context, fn func(pgx.Tx) error) error {
			return pgx.BeginFunc(ctx, pool, fn)
		}
		c.commit = func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) }
		c.nested = func(ctx context.Context, tx pgx.Tx, fn func(pgx.Tx) error) error {
			return pgx.BeginFunc(ctx, tx, fn)
		}
		return c
	}}
}

// connections is how many connections a program has: two for each of eight callers, so that a write with the pool waits for none of them.
const connections = 16

// program is one life of a stranger's program.
type program[TX any] struct {
	conn[TX]
	*world[TX]

	s      store.Store[TX] // through which faults come
	engine *once.Engine[TX]
	box    *outbox.Box[TX]
	bank   *http.Client // of a provider
	mails  *counter
}

// counter counts what a test cannot see otherwise.
type counter struct {
	mu sync.Mutex
	n  int
}

func (c *counter) add() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
}

func (c *counter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// start starts a program.
func (w *world[TX]) start(p *oncetest.Process, provider *oncetest.Provider, mails *counter) *program[TX] {
	c := w.open(p)
	g := &program[TX]{conn: c, world: w, mails: mails}
	g.s = oncetest.Store(p, store.Store[TX](c.store))
	g.engine = once.New(g.s, once.Config{Observer: once.Discard})
	g.box = outbox.New(sqlplane.SQL[TX](c.store), outbox.Config{})
	g.bank = &http.Client{Transport: p.Transport(provider)}
	return g
}

// charge asks the provider for money.
func (g *program[TX]) charge(ctx context.Context, key, body string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://bank.test/charges", strings.NewReader(body))
	if err != nil {
		return err
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	resp, err := g.bank.Do(r)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// order is the message of an order.
func order() message.Message {
	return message.Message{Topic: "orders", Key: "acme", Type: "order.created", Payload: []byte(`{}`)}
}

// keyed is a handler behind the middleware.
func (g *program[TX]) keyed(h func(w http.ResponseWriter, r *http.Request, tx TX)) http.Handler {
	return oncehttp.Handler(g.engine, oncehttp.Config{Principal: oncehttp.SharedPrincipal()}, h)
}

// refund is the ordinary work.
func (g *program[TX]) refund(ctx context.Context, tx TX) error {
	return g.exec(ctx, tx, "insert into refund (account, amount) values (?, ?)", "acme", 5)
}

func createdf(w http.ResponseWriter, format string, args ...any) {
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, format, args...)
}

func request() *http.Request {
	return httptest.NewRequest(http.MethodPost, "/refunds", strings.NewReader(`{"amount":5}`))
}

// recorder keeps the first thing that a test says, which ends it, in place of failing.
type recorder struct {
	testing.TB

	said string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Fatalf(format string, args ...any) { r.Errorf(format, args...) }

func (r *recorder) Error(args ...any) { r.Errorf("%s", fmt.Sprint(args...)) }

// complaint runs a test until it says something, and returns that.
func complaint(t testing.TB, test func(testing.TB)) string {
	t.Helper()
	r, done := &recorder{TB: t}, make(chan struct{})
	go func() {
		defer close(done)
		test(r)
	}()
	<-done
	return r.said
}
