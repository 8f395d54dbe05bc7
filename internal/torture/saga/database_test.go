package saga

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/internal/torture/harness"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/pgxstore"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/sqlstore"
)

// TestMain is also the entry of the children: the same binary with a plan in its environment.
func TestMain(m *testing.M) {
	_ = mysql.SetLogger(&mysql.NopLogger{})
	if text := os.Getenv(planEnv); text != "" {
		os.Exit(beNode(text))
	}
	testenv.Main(m)
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

const (
	ttl      = 200 * time.Millisecond
	patience = 90 * time.Second // bounds what must come: a hang is a failure
)

// sqlStore is a store with transactions and tables.
type sqlStore[TX any] interface {
	store.Store[TX]
	sqlplane.SQL[TX]
}

// opening is how a process reaches a database.
type opening struct{ Store, DSN string }

func newDatabase(tb testing.TB, name string) opening {
	tb.Helper()
	o := opening{Store: name}
	sets := saga.Migrations
	switch name {
	case harness.SQLite:
		o.DSN = "file:" + filepath.Join(tb.TempDir(), "saga.db") + "?_pragma=journal_mode(WAL)&_pragma=busy_timeout(60000)"
	case harness.MariaDB:
		o.DSN = testenv.NewMariaDB(tb)
	case harness.MySQL:
		o.DSN = testenv.NewMySQL(tb)
	default:
		o.DSN = testenv.NewDatabase(tb)
	}
	var plane sqlplane.Database
	if name == harness.Pgx {
		pool, err := pgxpool.New(tb.Context(), o.DSN)
		must(tb, err)
		defer pool.Close()
		must(tb, pgxstore.Migrate(tb.Context(), pool, sets, operate.Migrations))
		plane = pgxstore.New(pool, pgxstore.Config{})
	} else {
		db, err := o.openSQL()
		must(tb, err)
		defer func() { _ = db.Close() }()
		must(tb, sqlstore.Migrate(tb.Context(), db, sets, operate.Migrations))
		s, err := sqlstore.New(tb.Context(), db, sqlstore.Config{})
		must(tb, err)
		plane = s
	}
	// What steps write has no unique key: only the saga keeps a step from being committed twice.
	_, err := plane.Pool().Exec(tb.Context(), text(plane, "create table effect (saga varchar(200) not null, what varchar(100) not null)"))
	must(tb, err)
	return o
}

func (o opening) openSQL() (*sql.DB, error) {
	drivers := map[string]string{harness.Postgres: "pgx", harness.SQLite: "sqlite", harness.MariaDB: "mysql", harness.MySQL: "mysql"}
	db, err := sqlstore.Open(drivers[o.Store], o.DSN)
	if err == nil {
		db.SetMaxOpenConns(8)
		db.SetMaxIdleConns(8)
	}
	return db, err
}

// openPgx and openSQLStore open the stores.
func (o opening) openPgx(ctx context.Context) (*pgxstore.Store, func(), error) {
	pool, err := pgxpool.New(ctx, o.DSN)
	if err != nil {
		return nil, nil, err
	}
	return pgxstore.New(pool, pgxstore.Config{}), pool.Close, nil
}

func (o opening) openSQLStore(ctx context.Context) (*sqlstore.Store, func(), error) {
	db, err := o.openSQL()
	if err != nil {
		return nil, nil, err
	}
	s, err := sqlstore.New(ctx, db, sqlstore.Config{})
	return s, func() { _ = db.Close() }, err
}

// on runs a test on each database.
func on(t *testing.T, overPgx func(*testing.T, system[pgx.Tx]), overSQL func(*testing.T, system[*sql.Tx])) {
	t.Helper()
	harness.Each(t, harness.Servers, func(t *testing.T, name string) {
		o := newDatabase(t, name)
		if name == harness.Pgx {
			s, end, err := o.openPgx(t.Context())
			must(t, err)
			defer end()
			overPgx(t, system[pgx.Tx]{opening: o, db: s, begin: func(ctx context.Context) (pgx.Tx, func() error, error) {
				txn, _, err := s.Begin(ctx, store.BeginOptions{})
				if err != nil {
					return nil, nil, err
				}
				return txn.Tx(), func() error { return txn.Commit(ctx, store.Change{}) }, nil
			}})
			return
		}
		s, end, err := o.openSQLStore(t.Context())
		must(t, err)
		defer end()
		overSQL(t, system[*sql.Tx]{opening: o, db: s, begin: func(ctx context.Context) (*sql.Tx, func() error, error) {
			txn, _, err := s.Begin(ctx, store.BeginOptions{})
			if err != nil {
				return nil, nil, err
			}
			return txn.Tx(), func() error { return txn.Commit(ctx, store.Change{}) }, nil
		}})
	})
}

// system is sagas on a database.
type system[TX any] struct {
	opening

	db    sqlStore[TX]
	begin func(ctx context.Context) (tx TX, commit func() error, err error)
	no    bool // the last step says no
	at    func(point string)
}

func text(db sqlplane.Database, query string, args ...any) store.Statement {
	return store.Statement{SQL: dialect.Text(db.Dialect(), query), Args: args}
}

func (s system[TX]) insert(key, what string) store.Statement {
	return text(s.db, "insert into effect (saga, what) values (?, ?)", key, what)
}

// definition is a saga of a step in a transaction, a call, a batch and another step. The input is its key. The service is in the database, in a
// transaction of its own: it dedupes by the primary key of what it writes.
func (s system[TX]) definition() *saga.Definition[string, string] {
	step := func(name string) *saga.TxStep[TX, string, string] {
		return saga.Tx(name, func(ctx context.Context, tx TX, key string) (string, error) {
			if _, err := s.db.On(tx).Exec(ctx, s.insert(key, "do "+name)); err != nil {
				return "", err
			}
			if s.no && name == "ship" {
				return "", &once.Failure{Code: "no"}
			}
			return name, nil
		}).Undo(func(ctx context.Context, tx TX, key, _ string) error {
			_, err := s.db.On(tx).Exec(ctx, s.insert(key, "undo "+name))
			return err
		})
	}
	reserve, ship := step("reserve"), step("ship").Last()
	charge := saga.Call("charge", func(ctx context.Context, callKey, key string) (string, error) {
		return "charged", s.service(ctx, callKey, key, "do charge")
	}).SafeToRepeat().Undo(func(ctx context.Context, callKey, key, _ string) error {
		return s.service(ctx, callKey, key, "undo charge")
	})
	book := saga.Batch("book", func(b *once.Batch, key string) (string, error) {
		b.Add(s.insert(key, "do book"))
		return "", nil
	}).Undo(func(b *once.Batch, key, _ string) error { b.Add(s.insert(key, "undo book")); return nil })
	return saga.New("order", func(ctx saga.Context, key string) (string, error) {
		if _, err := reserve.Do(ctx, key); err != nil {
			return "", err
		}
		if _, err := charge.Do(ctx, key); err != nil {
			return "", err
		}
		if _, err := book.Do(ctx, key); err != nil {
			return "", err
		}
		return ship.Do(ctx, key)
	}, reserve, charge, book, ship)
}

// service takes effect once for each key: it is another service, with a database of its own in the same server.
func (s system[TX]) service(ctx context.Context, callKey, key, what string) error {
	ctx = context.WithoutCancel(ctx)
	if s.at != nil {
		s.at("request")
		defer s.at("answered")
	}
	return s.db.Within(ctx, store.ReadCommitted, func(ctx context.Context, r sqlplane.Runner) error {
		rows := 0
		if err := r.Query(ctx, text(s.db, "select 1 from effect where saga = ?", "key "+callKey), func(sqlplane.Row) error { rows++; return nil }); err != nil || rows > 0 {
			return err
		}
		if _, err := r.Exec(ctx, s.insert("key "+callKey, what)); err != nil {
			return err
		}
		_, err := r.Exec(ctx, s.insert(key, what))
		return err
	})
}

func (s system[TX]) runner(of store.Store[TX], d saga.AnyDefinition) *saga.Runner[TX] {
	return saga.NewRunner(of, saga.Config{
		TTL: ttl, Backoff: 10 * time.Millisecond, MaxBackoff: 50 * time.Millisecond, Every: 20 * time.Millisecond, Log: slog.New(slog.DiscardHandler),
	}, d)
}

func idOf(key string) saga.ID { return saga.ID{Tenant: "acme", Key: key} }

// finish has another node bring sagas to their end.
func (s system[TX]) finish(t *testing.T, keys ...string) {
	t.Helper()
	d := s.definition()
	r := s.runner(s.db, d)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	for _, key := range keys {
		until(t, func() error {
			switch st, err := r.Status(ctx, idOf(key)); {
			case err != nil:
				return err
			case st.State != "completed" && st.State != "compensated":
				return fmt.Errorf("%s: %+v", key, st)
			}
			return nil
		})
	}
	cancel()
	must(t, <-ended)
}

// judge compares the effects of a saga with its end.
func (s system[TX]) judge(t *testing.T, key string) {
	t.Helper()
	st, err := s.runner(s.db, s.definition()).Status(t.Context(), idOf(key))
	must(t, err)
	count := map[string]int{}
	must(t, s.db.Pool().Query(t.Context(), text(s.db, "select what from effect where saga = ?", key), func(row sqlplane.Row) error {
		var what string
		err := row.Scan(&what)
		count[what]++
		return err
	}))
	for _, step := range []string{"reserve", "charge", "book", "ship"} {
		did, undid := count["do "+step], count["undo "+step]
		want := [2]int{1, 0}
		if st.State == "compensated" {
			want = [2]int{did, did}
		}
		if did > 1 || did != want[0] || undid != want[1] {
			t.Errorf("%s is %s: %s was done %d times and undone %d times: %+v", key, st.State, step, did, undid, st)
		}
	}
	if want := map[bool]string{true: "compensated", false: "completed"}[s.no]; st.State != want {
		t.Errorf("%s is %s, want %s: %+v", key, st.State, want, st)
	}
}

// until waits until fn returns nil.
func until(tb testing.TB, fn func() error) {
	tb.Helper()
	over := time.After(patience)
	for {
		err := fn()
		if err == nil {
			return
		}
		select {
		case <-over:
			tb.Fatal(err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
