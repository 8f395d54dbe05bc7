package consumer

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once/message"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/oncelib/once"
	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/store/sqlplane"
)

// patience bounds what should end by itself.
const patience = 2 * time.Minute

const topic = "refunds"

func TestMain(m *testing.M) { harness.Main[plan](m) }

// fixture is a database in which messages are applied.
type fixture[TX any] struct {
	harness.Database

	store  harness.Store[TX]
	engine *once.Engine[TX]
	idle   time.Duration // after which the database ends a transaction that does nothing; 0: the default of the engine
}

// applied has a row for each time that a handler has committed, in the order of commits for each key.
var applied = map[sqlplane.Dialect]string{
	sqlplane.PostgreSQL: "create table applied (n bigserial primary key, id text, name text, seq bigint)",
	sqlplane.SQLite:     "create table applied (n integer primary key autoincrement, id text, name text, seq bigint)",
	sqlplane.MySQL:      "create table applied (n bigint auto_increment primary key, id varchar(100), name varchar(100), seq bigint)",
}

var migrations = []migration.Set{inbox.Migrations, deadletter.Migrations}

func newPgx(t *testing.T) *fixture[pgx.Tx] {
	t.Helper()
	d := harness.Migrated(t, harness.Pgx, migrations, applied[sqlplane.PostgreSQL])
	s, _ := harness.OpenPgx(t, d)
	return fixtureOn(d, s)
}

func newSQLite(t *testing.T) *fixture[*sql.Tx] {
	t.Helper()
	return newSQL(t, harness.SQLite)
}

func newSQL(t *testing.T, kind string) *fixture[*sql.Tx] {
	t.Helper()
	d := harness.Migrated(t, kind, migrations)
	s, _ := harness.OpenSQL(t, d)
	g := fixtureOn(d, s)
	g.exec(t, applied[s.Dialect()])
	return g
}

func fixtureOn[TX any](d harness.Database, s harness.Store[TX]) *fixture[TX] {
	return &fixture[TX]{Database: d, store: s, engine: once.New(s, once.Config{Observer: once.Discard})}
}

func (g *fixture[TX]) text(query string, args ...any) store.Statement {
	return harness.Text(g.store, query, args...)
}

func (g *fixture[TX]) exec(t *testing.T, query string, args ...any) {
	t.Helper()
	harness.Exec(t, g.store, query, args...)
}

func (g *fixture[TX]) count(t *testing.T, query string, args ...any) int {
	t.Helper()
	return harness.Count(t, g.store, query, args...)
}

// apply is what a handler does.
func (g *fixture[TX]) apply(ctx context.Context, tx TX, m message.Message) error {
	_, err := g.store.On(tx).Exec(ctx, g.text("insert into applied (id, name, seq) values (?, ?, ?)", m.ID, m.Key, m.Seq))
	return err
}

// inbox returns an inbox whose failures are tried again soon, for ever.
func (g *fixture[TX]) inbox(observer inbox.Observer) *inbox.Inbox[TX] {
	return inbox.New(g.engine, inbox.Config{
		Consumer: "billing", Order: inbox.InOrder, Observer: observer, Timeouts: store.Timeouts{Idle: g.idle},
		Policy: &retry.Policy{Attempts: math.MaxInt, Base: 10 * time.Millisecond, Cap: 100 * time.Millisecond, Total: -1},
	})
}

// waitFor waits until n messages are applied.
func (g *fixture[TX]) waitFor(t *testing.T, n int) {
	t.Helper()
	for before, end := 0, time.Now().Add(patience); ; { // patience without any progress
		got := g.count(t, "select count(*) from applied")
		if got >= n {
			return
		}
		if got > before {
			before, end = got, time.Now().Add(patience)
		}
		if time.Now().After(end) {
			t.Fatalf("%d messages of %d are applied", got, n)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// check checks that the messages of each key are applied once and in order: n of them, of so many keys.
func (g *fixture[TX]) check(t *testing.T, n, keys int) {
	t.Helper()
	last, ids := map[string]int64{}, map[string]bool{}
	rows := 0
	must(t, g.store.Pool().Query(t.Context(), g.text("select id, name, seq from applied order by n"), func(row sqlplane.Row) error {
		var id, name string
		var seq int64
		if err := row.Scan(&id, &name, &seq); err != nil {
			return err
		}
		rows++
		if ids[id] {
			t.Errorf("message %s is applied twice", id)
		}
		ids[id] = true
		if seq != last[name]+1 {
			t.Errorf("%s: %d is applied after %d", name, seq, last[name])
		}
		last[name] = max(last[name], seq)
		return nil
	}))
	if rows != n || len(last) != keys {
		t.Errorf("%d messages of %d are applied, %d keys of %d", rows, n, len(last), keys)
	}
	if dead := g.count(t, "select count(*) from once_deadletter"); dead > 0 {
		t.Errorf("%d dead letters", dead)
	}
}

// batch returns messages of keys, each with the numbers from first to last.
func batch(keys int, first, last int64) (list []message.Message) {
	for seq := first; seq <= last; seq++ {
		for k := range keys {
			key := fmt.Sprint("key ", k)
			list = append(list, message.Message{
				ID: fmt.Sprint(key, "/", seq), Source: "test", Topic: topic, Key: key, Seq: seq, Type: "refund.succeeded",
				Payload: fmt.Append(nil, seq), CreatedAt: time.Unix(seq, 0),
			})
		}
	}
	return list
}

// publish publishes until all messages are delivered.
func publish(t *testing.T, p outbox.Publisher, list []message.Message) {
	t.Helper()
	for part := range slices.Chunk(list, 1000) { // a call is bounded
		publishPart(t, p, part)
	}
}

func publishPart(t *testing.T, p outbox.Publisher, list []message.Message) {
	t.Helper()
	for end := time.Now().Add(patience); len(list) > 0; {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		errs := p.Publish(ctx, list)
		cancel()
		var failed []message.Message
		for i, m := range list {
			if errs != nil && errs[i] != nil {
				failed = append(failed, m)
			}
		}
		if list = failed; len(list) > 0 {
			if time.Now().After(end) {
				t.Fatalf("%d messages cannot be published, the last one: %v", len(list), errs[len(errs)-1])
			}
			<-time.After(20 * time.Millisecond)
		}
	}
}

// events records what an inbox tells.
type events struct {
	mu   sync.Mutex
	list []inbox.Event
}

// Observe implements inbox.Observer.
func (e *events) Observe(_ context.Context, event inbox.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, event)
}

func (e *events) count(kind inbox.EventType) (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, event := range e.list {
		if event.Type == kind {
			n++
		}
	}
	return n
}

// start runs a consumer until stop is called.
func start(t *testing.T, consume func(ctx context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- consume(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Error("the consumer does not end")
		}
	})
	t.Cleanup(stop)
	return stop
}

// receive waits for a signal.
func receive[T any](t *testing.T, what string, from <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-from:
	case <-time.After(patience):
		t.Fatal("waited too long for ", what)
	}
	return value
}

// until waits for a condition.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); {
		if time.Now().After(end) {
			t.Fatal("waited too long for ", what)
		}
		<-time.After(10 * time.Millisecond)
	}
}

func must(tb testing.TB, err error) { tb.Helper(); harness.Must(tb, err) }

var quiet = slog.New(slog.DiscardHandler)
