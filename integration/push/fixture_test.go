package push

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/oncelib/once/message"

	"github.com/jackc/pgx/v5"
	_ "modernc.org/sqlite"

	"github.com/oncelib/once"
	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/migration"
)

func TestMain(m *testing.M) { harness.Main[receiverPlan](m) }

// patience bounds what should end by itself.
const patience = 2 * time.Minute

var migrations = []migration.Set{inbox.Migrations, deadletter.Migrations}

// effects has a row for each time that a handler was committed: the message, and the highest Seq of its key before.
const effects = "create table effect (event varchar(100) not null, k varchar(100) not null, seq bigint not null, before_seq bigint not null)"

// fixture is a migrated database in which messages take effect.
type fixture[TX any] struct {
	harness.Database

	store  harness.Store[TX]
	engine *once.Engine[TX]
}

func newSQLite(t *testing.T) *fixture[*sql.Tx] {
	t.Helper()
	d := harness.Migrated(t, harness.SQLite, migrations, effects)
	s, _ := harness.OpenSQL(t, d)
	return fixtureOn(d, s)
}

func newPgx(t *testing.T) *fixture[pgx.Tx] {
	t.Helper()
	d := harness.Migrated(t, harness.Pgx, migrations, effects)
	s, _ := harness.OpenPgx(t, d)
	return fixtureOn(d, s)
}

func fixtureOn[TX any](d harness.Database, s harness.Store[TX]) *fixture[TX] {
	return &fixture[TX]{d, s, once.New(s, once.Config{Observer: once.Discard})}
}

func onEach(t *testing.T, onPgx func(*testing.T, *fixture[pgx.Tx]), onSQL func(*testing.T, *fixture[*sql.Tx])) {
	t.Helper()
	t.Run("pgxstore", func(t *testing.T) { t.Parallel(); onPgx(t, newPgx(t)) })
	t.Run("SQLite", func(t *testing.T) { t.Parallel(); onSQL(t, newSQLite(t)) })
}

// soon tries again at once, and gives a message up after n attempts.
func soon(n int) *retry.Policy {
	return &retry.Policy{Attempts: n, Base: time.Millisecond, Cap: 5 * time.Millisecond, Total: -1}
}

func (g *fixture[TX]) inbox(order inbox.Order) *inbox.Inbox[TX] {
	return inbox.New(g.engine, inbox.Config{Consumer: "billing", Order: order, Policy: soon(3), Observer: inbox.Log(slog.New(slog.DiscardHandler))})
}

// book is a handler: it writes an effect for each message.
func (g *fixture[TX]) book(ctx context.Context, tx TX, m message.Message) error {
	_, err := g.store.On(tx).Exec(ctx, g.text(`insert into effect (event, k, seq, before_seq)
 select ?, ?, ?, coalesce(max(seq), 0) from effect where k = ?`, m.ID, m.Topic+" "+m.Key, m.Seq, m.Topic+" "+m.Key))
	return err
}

func (g *fixture[TX]) text(query string, args ...any) store.Statement {
	return harness.Text(g.store, query, args...)
}

func (g *fixture[TX]) count(t *testing.T, query string, args ...any) int {
	t.Helper()
	return harness.Count(t, g.store, query, args...)
}

// wantOnce expects each of the messages to be applied once, and those of a key in order.
func (g *fixture[TX]) wantOnce(t *testing.T, messages int) {
	t.Helper()
	if n := g.count(t, "select count(*) from effect"); n != messages {
		t.Errorf("%d effects, want %d", n, messages)
	}
	if n := g.count(t, "select count(distinct event) from effect"); n != messages {
		t.Errorf("%d messages have taken effect, want %d", n, messages)
	}
	if n := g.count(t, "select count(*) from effect where seq > 0 and seq <> before_seq + 1"); n > 0 {
		t.Errorf("%d messages were applied out of order", n)
	}
	if n := g.count(t, "select count(*) from once_inbox_parked"); n > 0 {
		t.Errorf("%d messages are still parked", n)
	}
}

func (g *fixture[TX]) wantLetters(t *testing.T, class string, want int) {
	t.Helper()
	if n := g.count(t, "select count(*) from once_deadletter where class = ?", class); n != want {
		t.Errorf("%d dead letters of class %s, want %d", n, class, want)
	}
}

func must(tb testing.TB, err error) { tb.Helper(); harness.Must(tb, err) }

func key(i int) string { return fmt.Sprintf("account-%d", i) }
