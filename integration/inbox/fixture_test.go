package inbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once/message"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/store/sqlplane"
)

func TestMain(m *testing.M) { harness.Main[childPlan](m) }

// patience is how long a test waits for what must come.
const patience = 2 * time.Minute

// migrations are those that an inbox needs.
var migrations = []migration.Set{inbox.Migrations, deadletter.Migrations, operate.Migrations}

// fixture is a new, migrated database with the effects of a handler.
type fixture[TX any] struct {
	name   string
	store  harness.Store[TX]
	engine *once.Engine[TX]
}

// effects is what handlers write: each message with the Seq of its key that was the highest before.
const effects = "create table effect (event varchar(100) not null, k varchar(100) not null, seq bigint not null, before_seq bigint not null)"

func migrated(t *testing.T, kind string) harness.Database {
	t.Helper()
	return harness.Migrated(t, kind, migrations, effects)
}

func newSQL(t *testing.T, kind string) *fixture[*sql.Tx] {
	t.Helper()
	return openSQL(t, migrated(t, kind))
}

func openSQL(t *testing.T, d harness.Database) *fixture[*sql.Tx] {
	t.Helper()
	s, _ := harness.OpenSQL(t, d)
	return fixtureOn(d.Kind, s)
}

func newPgx(t *testing.T, configure ...func(*pgxpool.Config)) *fixture[pgx.Tx] {
	t.Helper()
	return openPgx(t, migrated(t, harness.Pgx), configure...)
}

func openPgx(t *testing.T, d harness.Database, configure ...func(*pgxpool.Config)) *fixture[pgx.Tx] {
	t.Helper()
	s, _ := harness.OpenPgx(t, d, configure...)
	return fixtureOn(d.Kind, s)
}

func fixtureOn[TX any](name string, s harness.Store[TX]) *fixture[TX] {
	return &fixture[TX]{name: name, store: s, engine: once.New(s, once.Config{Observer: once.Discard})}
}

// on runs a test on a database of each kind.
func on(t *testing.T, onPgx func(*testing.T, *fixture[pgx.Tx]), onSQL func(*testing.T, *fixture[*sql.Tx])) {
	t.Helper()
	harness.Each(t, harness.All, func(t *testing.T, kind string) {
		t.Helper()
		if kind == harness.Pgx {
			onPgx(t, newPgx(t))
		} else {
			onSQL(t, newSQL(t, kind))
		}
	})
}

// soon tries again at once, and gives a message up after n attempts.
func soon(n int) *retry.Policy { return &retry.Policy{Attempts: n, Base: -1, Total: -1} }

// inbox returns an inbox on g. What it tells, its observer keeps.
func (g *fixture[TX]) inbox(t *testing.T, cfg inbox.Config) (*inbox.Inbox[TX], *diary) {
	t.Helper()
	return g.inboxOn(g.engine, cfg)
}

func (g *fixture[TX]) inboxOn(e *once.Engine[TX], cfg inbox.Config) (*inbox.Inbox[TX], *diary) {
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
func (g *fixture[TX]) text(query string, args ...any) store.Statement {
	return harness.Text(g.store, query, args...)
}

func (g *fixture[TX]) exec(t *testing.T, query string, args ...any) int64 {
	t.Helper()
	return harness.Exec(t, g.store, query, args...)
}

func (g *fixture[TX]) count(t *testing.T, query string, args ...any) int {
	t.Helper()
	return harness.Count(t, g.store, query, args...)
}

// book is a handler: it writes an effect for each message.
func (g *fixture[TX]) book(ctx context.Context, tx TX, m message.Message) error {
	_, err := g.store.On(tx).Exec(ctx, g.text(`insert into effect (event, k, seq, before_seq)
 select ?, ?, ?, coalesce(max(seq), 0) from effect where k = ?`, m.ID, m.Key, m.Seq, m.Key))
	return err
}

// booked lists the events that were applied: sorted, and as often as they were.
func (g *fixture[TX]) booked(t *testing.T) (list []string) {
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

func (g *fixture[TX]) wantBooked(t *testing.T, want ...string) {
	t.Helper()
	slices.Sort(want)
	if got := g.booked(t); !slices.Equal(got, want) {
		t.Errorf("applied were %q, want %q", got, want)
	}
}

// wantOnce expects messages 1 to n of each key to be applied once and in order.
func (g *fixture[TX]) wantOnce(t *testing.T, keys []string, n int) {
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
func (g *fixture[TX]) parked(t *testing.T) int {
	t.Helper()
	rows := g.count(t, "select count(*) from once_inbox_parked")
	if n := g.count(t, "select coalesce(sum(parked), 0) from once_inbox_position"); n != rows {
		t.Errorf("positions count %d parked messages, %d are there", n, rows)
	}
	return rows
}

func (g *fixture[TX]) letters(t *testing.T) int {
	t.Helper()
	return g.count(t, "select count(*) from once_deadletter where state = 'dead'")
}

func must(tb testing.TB, err error) { tb.Helper(); harness.Must(tb, err) }

func want(tb testing.TB, got inbox.Outcome, err error, wanted inbox.Outcome) {
	tb.Helper()
	if err != nil || got != wanted {
		tb.Errorf("%q, %v; want %q", got, err, wanted)
	}
}

// message is one without an order.
func event(id string) message.Message {
	return message.Message{ID: id, Source: "s", Topic: "refunds", Type: "refund.succeeded", Payload: []byte("payload of " + id)}
}

// ordered is message seq of a key.
func ordered(key string, seq int64) message.Message {
	m := event(fmt.Sprintf("%s-%d", key, seq))
	m.Key, m.Seq = key, seq
	return m
}

var errRefused = errors.New("the handler does not like it")

// failing is book that fails while fails says so.
func (g *fixture[TX]) failing(fails func(m message.Message) bool) inbox.Handler[TX] {
	return func(ctx context.Context, tx TX, m message.Message) error {
		if err := g.book(ctx, tx, m); err != nil {
			return err
		}
		if fails(m) {
			return fmt.Errorf("%s: %w", m.ID, errRefused)
		}
		return nil
	}
}

func named(ids ...string) func(m message.Message) bool {
	return func(m message.Message) bool { return slices.Contains(ids, m.ID) }
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
