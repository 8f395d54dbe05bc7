package deadletter

import (
	"context"
	"testing"

	"github.com/oncelib/once/message"

	"github.com/oncelib/once"
	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/store/sqlplane"
)

func TestMain(m *testing.M) { harness.Main[killPlan](m) }

var sets = []migration.Set{operate.Migrations, outbox.Migrations, inbox.Migrations, deadletter.Migrations}

// fixture is a new, migrated database.
type fixture struct {
	sqlplane.Database

	box      box
	consumer func(cfg inbox.Config, fn handler) consumer
}

// handler applies a message of an inbox.
type handler func(ctx context.Context, r sqlplane.Runner, m message.Message) error

// consumer is an inbox with its handler.
type consumer struct {
	handle func(ctx context.Context, m message.Message) (inbox.Outcome, error)
	run    func(ctx context.Context) error
}

func newFixture[TX any](s harness.Store[TX]) *fixture {
	engine := once.New(s, once.Config{Observer: once.Discard})
	return &fixture{s, outbox.New(s, outbox.Config{}), func(cfg inbox.Config, fn handler) consumer {
		in := inbox.New(engine, cfg)
		apply := func(ctx context.Context, tx TX, m message.Message) error { return fn(ctx, s.On(tx), m) }
		return consumer{
			func(ctx context.Context, m message.Message) (inbox.Outcome, error) { return in.Handle(ctx, m, apply) },
			func(ctx context.Context) error { return in.Run(ctx, apply) },
		}
	}}
}

// box is the outbox of the database.
type box interface {
	Relay(p outbox.Publisher, cfg outbox.RelayConfig) *outbox.Relay
}

// on runs a test on a database of each kind.
func on(t *testing.T, test func(t *testing.T, g *fixture)) {
	t.Helper()
	harness.Each(t, harness.Servers, func(t *testing.T, kind string) { t.Helper(); test(t, newOn(t, kind)) })
}

// newOn makes a fixture on a database of a kind.
func newOn(t *testing.T, kind string) *fixture {
	t.Helper()
	return open(t, harness.Migrated(t, kind, sets))
}

func newPgx(t *testing.T) *fixture { t.Helper(); return newOn(t, harness.Pgx) }

// open opens a database that is migrated.
func open(t *testing.T, d harness.Database) *fixture {
	t.Helper()
	if d.Kind == harness.Pgx {
		s, _ := harness.OpenPgx(t, d)
		return newFixture(s)
	}
	s, _ := harness.OpenSQL(t, d)
	return newFixture(s)
}

func (g *fixture) text(query string, args ...any) store.Statement {
	return harness.Text(g.Database, query, args...)
}

func (g *fixture) exec(t *testing.T, query string, args ...any) int64 {
	t.Helper()
	return harness.Exec(t, g.Database, query, args...)
}

func (g *fixture) count(t *testing.T, query string, args ...any) int {
	t.Helper()
	return harness.Count(t, g.Database, query, args...)
}

func must(tb testing.TB, err error) { tb.Helper(); harness.Must(tb, err) }
