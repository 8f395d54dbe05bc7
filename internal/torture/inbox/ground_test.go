package inbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/oncelib/once"
	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/store/pgxstore"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/sqlstore"
)

func TestMain(m *testing.M) {
	_ = mysql.SetLogger(&mysql.NopLogger{})
	if plan := os.Getenv(childEnv); plan != "" {
		os.Exit(beConsumer(plan))
	}
	testenv.Main(m)
}

// patience is how long a test waits for what must come.
const patience = 2 * time.Minute

// migrations are those that an inbox needs.
var migrations = []migration.Set{inbox.Migrations, deadletter.Migrations, operate.Migrations}

// sqlStore is a store with transactions and tables.
type sqlStore[TX any] interface {
	store.Store[TX]
	sqlplane.SQL[TX]
}

// ground is a new, migrated database with the effects of a handler.
type ground[TX any] struct {
	name   string
	store  sqlStore[TX]
	engine *once.Engine[TX]
}

// effects is what handlers write: each message with the Seq of its key that was the highest before.
const effects = "create table effect (event varchar(100) not null, k varchar(100) not null, seq bigint not null, before_seq bigint not null)"

// sqlConfig is a database for package sqlstore.
type sqlConfig struct {
	driver string
	dsn    func(tb testing.TB) string
	config sqlstore.Config
	tier   testenv.Tier
}

func sqliteFile(tb testing.TB) string {
	tb.Helper()
	return sqliteDSN(filepath.Join(tb.TempDir(), "test.db"))
}

func sqliteDSN(file string) string {
	return "file:" + file + "?_pragma=journal_mode(WAL)&_pragma=busy_timeout(10000)"
}

var sqlConfigs = map[string]sqlConfig{
	"SQLite":               {"sqlite", sqliteFile, sqlstore.Config{}, testenv.InTest},
	"SQLite, GroupCommit":  {"sqlite", sqliteFile, sqlstore.Config{GroupCommit: true}, testenv.InProve},
	"PostgreSQL, sqlstore": {"pgx", testenv.NewDatabase, sqlstore.Config{}, testenv.InProve},
	"MariaDB":              {"mysql", testenv.NewMariaDB, sqlstore.Config{}, testenv.InTest},
	"MySQL":                {"mysql", testenv.NewMySQL, sqlstore.Config{}, testenv.InProve},
}

func newSQL(t *testing.T, name string) *ground[*sql.Tx] {
	t.Helper()
	c := sqlConfigs[name]
	db, err := sqlstore.Open(c.driver, c.dsn(t))
	must(t, err)
	return newSQLOn(t, name, db, c.config)
}

func newSQLOn(t *testing.T, name string, db *sql.DB, cfg sqlstore.Config) *ground[*sql.Tx] {
	t.Helper()
	t.Cleanup(func() { _ = db.Close() })
	must(t, sqlstore.Migrate(t.Context(), db, migrations...))
	_, err := db.ExecContext(t.Context(), effects)
	must(t, err)
	s, err := sqlstore.New(t.Context(), db, cfg)
	must(t, err)
	return groundOn(name, s)
}

func newPgx(t *testing.T, configure ...func(*pgxpool.Config)) *ground[pgx.Tx] {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(testenv.NewDatabase(t))
	must(t, err)
	cfg.MaxConns = 8
	for _, c := range configure {
		c(cfg)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	must(t, err)
	t.Cleanup(pool.Close)
	must(t, pgxstore.Migrate(t.Context(), pool, migrations...))
	_, err = pool.Exec(t.Context(), effects)
	must(t, err)
	return groundOn("pgxstore", pgxstore.New(pool, pgxstore.Config{}))
}

func groundOn[TX any](name string, s sqlStore[TX]) *ground[TX] {
	return &ground[TX]{name: name, store: s, engine: once.New(s, once.Config{Observer: once.Discard})}
}

// on runs a test on a database of each kind: some in make test, the others in make prove.
func on(t *testing.T, onPgx func(*testing.T, *ground[pgx.Tx]), onSQL func(*testing.T, *ground[*sql.Tx])) {
	t.Helper()
	t.Run("pgxstore", func(t *testing.T) {
		testenv.Cell(t, testenv.InTest)
		t.Parallel()
		onPgx(t, newPgx(t))
	})
	for name, c := range sqlConfigs {
		t.Run(name, func(t *testing.T) {
			testenv.Cell(t, c.tier)
			t.Parallel()
			onSQL(t, newSQL(t, name))
		})
	}
}

// soon tries again at once, and gives a message up after n attempts.
func soon(n int) *retry.Policy { return &retry.Policy{Attempts: n, Base: -1, Total: -1} }

// inbox returns an inbox on g. What it tells, its observer keeps.
func (g *ground[TX]) inbox(t *testing.T, cfg inbox.Config) (*inbox.Inbox[TX], *diary) {
	t.Helper()
	return g.inboxOn(g.engine, cfg)
}

func (g *ground[TX]) inboxOn(e *once.Engine[TX], cfg inbox.Config) (*inbox.Inbox[TX], *diary) {
	if cfg.Consumer == "" {
		cfg.Consumer = "billing"
	}
	if cfg.Policy == nil {
		cfg.Policy = soon(3)
	}
	d := new(diary)
	cfg.Observer = d
	return inbox.New(e, cfg), d
}

// diary keeps events.
type diary struct {
	mu   sync.Mutex
	list []inbox.Event
}

func (d *diary) Observe(_ context.Context, e inbox.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.list = append(d.list, e)
}

func (d *diary) of(what inbox.EventType) (list []inbox.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.list {
		if e.Type == what {
			list = append(list, e)
		}
	}
	return list
}

// text is a statement in the dialect of the store.
func (g *ground[TX]) text(query string, args ...any) store.Statement {
	return store.Statement{SQL: dialect.Text(g.store.Dialect(), query), Args: args}
}

func (g *ground[TX]) exec(t *testing.T, query string, args ...any) int64 {
	t.Helper()
	n, err := g.store.Pool().Exec(t.Context(), g.text(query, args...))
	must(t, err)
	return n
}

func (g *ground[TX]) count(t *testing.T, query string, args ...any) (n int) {
	t.Helper()
	must(t, g.store.Pool().Query(t.Context(), g.text(query, args...), func(row sqlplane.Row) error { return row.Scan(&n) }))
	return n
}

// book is a handler: it writes an effect for each message.
func (g *ground[TX]) book(ctx context.Context, tx TX, m inbox.Message) error {
	_, err := g.store.On(tx).Exec(ctx, g.text(`insert into effect (event, k, seq, before_seq)
 select ?, ?, ?, coalesce(max(seq), 0) from effect where k = ?`, m.ID, m.Key, m.Seq, m.Key))
	return err
}

// booked lists the events that were applied: sorted, and as often as they were.
func (g *ground[TX]) booked(t *testing.T) (list []string) {
	t.Helper()
	must(t, g.store.Pool().Query(t.Context(), g.text("select event from effect"), func(row sqlplane.Row) error {
		var event string
		err := row.Scan(&event)
		list = append(list, event)
		return err
	}))
	slices.Sort(list)
	return list
}

func (g *ground[TX]) wantBooked(t *testing.T, want ...string) {
	t.Helper()
	slices.Sort(want)
	if got := g.booked(t); !slices.Equal(got, want) {
		t.Errorf("applied were %q, want %q", got, want)
	}
}

// wantOnce expects messages 1 to n of each key to be applied once and in order.
func (g *ground[TX]) wantOnce(t *testing.T, keys []string, n int) {
	t.Helper()
	type effect struct{ seq, before int64 }
	byKey := map[string][]effect{}
	must(t, g.store.Pool().Query(t.Context(), g.text("select k, seq, before_seq from effect order by seq"), func(row sqlplane.Row) error {
		var k string
		var e effect
		err := row.Scan(&k, &e.seq, &e.before)
		byKey[k] = append(byKey[k], e)
		return err
	}))
	for _, k := range keys {
		list := byKey[k]
		if len(list) != n {
			t.Errorf("key %s: %d effects, want %d", k, len(list), n)
		}
		for i, e := range list {
			if e.seq != int64(i+1) || e.before != int64(i) {
				t.Errorf("key %s: effect %d is of message %d, and was made after message %d", k, i+1, e.seq, e.before)
				break
			}
		}
	}
	if len(byKey) != len(keys) {
		t.Errorf("effects of keys %q, want %q", slices.Sorted(maps.Keys(byKey)), keys)
	}
}

// parked is how many messages wait for their turn. The count that each position has must be true.
func (g *ground[TX]) parked(t *testing.T) int {
	t.Helper()
	rows := g.count(t, "select count(*) from once_inbox_parked")
	if n := g.count(t, "select coalesce(sum(parked), 0) from once_inbox_position"); n != rows {
		t.Errorf("positions count %d parked messages, %d are there", n, rows)
	}
	return rows
}

func (g *ground[TX]) letters(t *testing.T) int {
	t.Helper()
	return g.count(t, "select count(*) from once_deadletter where state = 'dead'")
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func want(tb testing.TB, got inbox.Outcome, err error, wanted inbox.Outcome) {
	tb.Helper()
	if err != nil || got != wanted {
		tb.Errorf("%q, %v; want %q", got, err, wanted)
	}
}

// message is one without an order.
func message(id string) inbox.Message {
	return inbox.Message{ID: id, Source: "s", Topic: "refunds", Type: "refund.succeeded", Payload: []byte("payload of " + id)}
}

// ordered is message seq of a key.
func ordered(key string, seq int64) inbox.Message {
	m := message(fmt.Sprintf("%s-%d", key, seq))
	m.Key, m.Seq = key, seq
	return m
}

var errRefused = errors.New("the handler does not like it")

// failing is book that fails while fails says so.
func (g *ground[TX]) failing(fails func(m inbox.Message) bool) inbox.Handler[TX] {
	return func(ctx context.Context, tx TX, m inbox.Message) error {
		if err := g.book(ctx, tx, m); err != nil {
			return err
		}
		if fails(m) {
			return fmt.Errorf("%s: %w", m.ID, errRefused)
		}
		return nil
	}
}

func named(ids ...string) func(m inbox.Message) bool {
	return func(m inbox.Message) bool { return slices.Contains(ids, m.ID) }
}

// outcomes describes results: outcomes, "retry" for an error.
func outcomes(results []inbox.Result) string {
	var list []string
	for _, r := range results {
		s := string(r.Outcome)
		if r.Err != nil {
			s = "retry"
		}
		list = append(list, s)
	}
	return strings.Join(list, " ")
}
