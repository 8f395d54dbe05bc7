package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/oncelib/once/message"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/sqlstore"
)

func TestMain(m *testing.M) { harness.Main[relayPlan](m) }

// fixture is a new, migrated database and an outbox in it.
type fixture[TX any] struct {
	name   string
	store  harness.Store[TX]
	engine *once.Engine[TX]
	box    *outbox.Box[TX]

	begin     func(t *testing.T) (tx TX, end func(commit bool) error) // a transaction of the user's own
	savepoint func(t *testing.T, tx TX) (inner TX, end func(keep bool) error)
}

const chargeTable = "create table charge (id varchar(100) primary key)"

var migrations = []migration.Set{outbox.Migrations, deadletter.Migrations, operate.Migrations}

func migrated(t *testing.T, kind string) harness.Database {
	t.Helper()
	return harness.Migrated(t, kind, migrations, chargeTable)
}

func newSQL(t *testing.T, kind string) *fixture[*sql.Tx] {
	t.Helper()
	return openSQL(t, migrated(t, kind))
}

func openSQL(t *testing.T, d harness.Database) *fixture[*sql.Tx] {
	t.Helper()
	s, db := harness.OpenSQL(t, d)
	return sqlFixture(d.Kind, s, db)
}

func sqlFixture(kind string, s *sqlstore.Store, db *sql.DB) *fixture[*sql.Tx] {
	g := fixtureOn(kind, s)
	g.begin = func(t *testing.T) (*sql.Tx, func(bool) error) {
		t.Helper()
		tx, err := db.BeginTx(t.Context(), nil)
		must(t, err)
		return tx, func(commit bool) error {
			if commit {
				return tx.Commit()
			}
			return tx.Rollback()
		}
	}
	g.savepoint = func(t *testing.T, tx *sql.Tx) (*sql.Tx, func(bool) error) {
		t.Helper()
		exec := func(query string) error { _, err := tx.ExecContext(t.Context(), query); return err }
		must(t, exec("savepoint s"))
		return tx, func(keep bool) error {
			if keep {
				return exec("release savepoint s")
			}
			return errors.Join(exec("rollback to savepoint s"), exec("release savepoint s"))
		}
	}
	return g
}

func newPgx(t *testing.T, configure ...func(*pgxpool.Config)) *fixture[pgx.Tx] {
	t.Helper()
	return openPgx(t, migrated(t, harness.Pgx), configure...)
}

func openPgx(t *testing.T, d harness.Database, configure ...func(*pgxpool.Config)) *fixture[pgx.Tx] {
	t.Helper()
	s, pool := harness.OpenPgx(t, d, append([]func(*pgxpool.Config){func(c *pgxpool.Config) { c.MaxConns = 16 }}, configure...)...)
	g := fixtureOn(d.Kind, s)
	end := func(t *testing.T, tx pgx.Tx) func(bool) error {
		t.Helper()
		return func(commit bool) error {
			if commit {
				return tx.Commit(t.Context())
			}
			return tx.Rollback(t.Context())
		}
	}
	g.begin = func(t *testing.T) (pgx.Tx, func(bool) error) {
		t.Helper()
		tx, err := pool.Begin(t.Context())
		must(t, err)
		return tx, end(t, tx)
	}
	g.savepoint = func(t *testing.T, tx pgx.Tx) (pgx.Tx, func(bool) error) {
		t.Helper()
		inner, err := tx.Begin(t.Context())
		must(t, err)
		return inner, end(t, inner)
	}
	return g
}

func fixtureOn[TX any](name string, s harness.Store[TX]) *fixture[TX] {
	g := &fixture[TX]{name: name, store: s, box: outbox.New(s, outbox.Config{})}
	g.engine = once.New(s, once.Config{Observer: once.Discard})
	return g
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

// isServer reports whether transactions run at the same time.
func (g *fixture[TX]) isServer() bool { return g.store.Dialect() != sqlplane.SQLite }

// do runs one operation with a new key.
func (g *fixture[TX]) do(ctx context.Context, fn func(ctx context.Context, tx TX) error) error {
	return g.doAt(ctx, store.DefaultIsolation, fn)
}

func (g *fixture[TX]) doAt(ctx context.Context, level store.Isolation, fn func(ctx context.Context, tx TX) error) error {
	op := once.Operation{Scope: "outbox", Key: once.NewKey(), Isolation: level}
	_, err := once.Do(ctx, g.engine, op, func(ctx context.Context, tx TX) (string, error) { return "", fn(ctx, tx) })
	return err
}

// must adds messages in an operation of their own.
func (g *fixture[TX]) mustAdd(t *testing.T, messages ...message.Message) {
	t.Helper()
	must(t, g.do(t.Context(), func(ctx context.Context, tx TX) error { return g.box.Add(ctx, tx, messages...) }))
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

// charge writes as a handler does.
func (g *fixture[TX]) charge(ctx context.Context, tx TX, id string) error {
	_, err := g.store.On(tx).Exec(ctx, g.text("insert into charge (id) values (?)", id))
	return err
}

// rows describes what is in the outbox, in the order of ids: topic key seq type.
func (g *fixture[TX]) rows(t *testing.T) (list []string) {
	t.Helper()
	must(t, g.store.Pool().Query(t.Context(), g.text("select topic, KEY, seq, event_type from once_outbox order by id"), func(row sqlplane.Row) error {
		var topic, key, kind string
		var seq *int64
		err := row.Scan(&topic, &key, &seq, &kind)
		text := strings.TrimSpace(topic + " " + key)
		if seq != nil {
			text += fmt.Sprintf(" %d", *seq)
		}
		list = append(list, text+" "+kind)
		return err
	}))
	return list
}

func (g *fixture[TX]) wantRows(t *testing.T, want ...string) {
	t.Helper()
	if got := g.rows(t); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the outbox has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func must(tb testing.TB, err error) { tb.Helper(); harness.Must(tb, err) }

func event(topic, key, kind string) message.Message {
	return message.Message{Topic: topic, Key: key, Type: kind, Payload: []byte(kind)}
}
