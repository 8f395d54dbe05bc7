package hooks

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/webhook"
	"github.com/oncelib/once/webhook/ssrf"
)

func TestMain(m *testing.M) { harness.Main[plan](m) }

func must(tb testing.TB, err error) { tb.Helper(); harness.Must(tb, err) }

const chargeTable = "create table charge (id varchar(100) primary key)"

var (
	sets = []migration.Set{webhook.Migrations, operate.Migrations}

	encrypter, _ = once.NewEncrypter(bytes.Repeat([]byte{7}, 32))
)

// fixture is a new, migrated database and the webhooks in it.
type fixture[TX any] struct {
	harness.Database

	db     harness.Store[TX]
	engine *once.Engine[TX]
	hooks  *webhook.Hooks[TX]
}

func config() webhook.Config {
	return webhook.Config{Encrypter: encrypter, Guard: &ssrf.Guard{AllowPrefixes: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}}}
}

func fixtureOn[TX any](d harness.Database, s harness.Store[TX]) *fixture[TX] {
	return &fixture[TX]{d, s, once.New(s, once.Config{Observer: once.Discard}), webhook.New(s, config())}
}

// on runs a test on a database of each kind.
func on(t *testing.T, onPgx func(*testing.T, *fixture[pgx.Tx]), onSQL func(*testing.T, *fixture[*sql.Tx])) {
	t.Helper()
	onKinds(t, harness.All, onPgx, onSQL)
}

// writersAtOnce are the kinds on which several transactions write at a time.
var writersAtOnce = []string{harness.Pgx, harness.Postgres, harness.MariaDB, harness.MySQL}

func onKinds(t *testing.T, kinds []string, onPgx func(*testing.T, *fixture[pgx.Tx]), onSQL func(*testing.T, *fixture[*sql.Tx])) {
	t.Helper()
	harness.Each(t, kinds, func(t *testing.T, kind string) {
		t.Helper()
		d := harness.Migrated(t, kind, sets, chargeTable)
		if kind == harness.Pgx {
			s, _ := harness.OpenPgx(t, d)
			onPgx(t, fixtureOn(d, harness.Store[pgx.Tx](s)))
			return
		}
		s, _ := harness.OpenSQL(t, d)
		onSQL(t, fixtureOn(d, harness.Store[*sql.Tx](s)))
	})
}

// do runs one operation with a new key.
func (g *fixture[TX]) do(ctx context.Context, level store.Isolation, fn func(ctx context.Context, tx TX) error) error {
	op := once.Operation{Scope: "hooks", Key: once.NewKey(), Isolation: level}
	_, err := once.Do(ctx, g.engine, op, func(ctx context.Context, tx TX) (string, error) { return "", fn(ctx, tx) })
	return err
}

// begin begins a transaction of the caller.
func (g *fixture[TX]) begin(t *testing.T) (tx TX, commit func() error) {
	t.Helper()
	txn, _, err := g.db.Begin(t.Context(), store.BeginOptions{})
	must(t, err)
	return txn.Tx(), func() error { return txn.Commit(t.Context(), store.Change{}) }
}

func (g *fixture[TX]) exec(t *testing.T, query string, args ...any) int64 {
	t.Helper()
	return harness.Exec(t, g.db, query, args...)
}

func (g *fixture[TX]) count(t *testing.T, query string, args ...any) int {
	t.Helper()
	return harness.Count(t, g.db, query, args...)
}

// charge writes as a handler does.
func (g *fixture[TX]) charge(ctx context.Context, tx TX, id string) error {
	_, err := g.db.On(tx).Exec(ctx, harness.Text(g.db, "insert into charge (id) values (?)", id))
	return err
}

// endpoint creates one of a tenant.
func (g *fixture[TX]) endpoint(t *testing.T, tenant string, types ...string) webhook.Endpoint {
	t.Helper()
	e, _, err := g.hooks.Endpoints().Create(t.Context(), webhook.Endpoint{Tenant: tenant, URL: "https://203.0.113.7/" + tenant, Types: types, Description: strings.Join(types, " ")})
	must(t, err)
	return e
}

// send sends events in an operation of their own.
func (g *fixture[TX]) send(t *testing.T, events ...webhook.Event) {
	t.Helper()
	must(t, g.do(t.Context(), store.DefaultIsolation, func(ctx context.Context, tx TX) error { return g.hooks.Send(ctx, tx, events...) }))
}

// deliveries describes what waits, in an order of its own: tenant, description of the endpoint, type of the event.
func (g *fixture[TX]) deliveries(t *testing.T) (list []string) {
	t.Helper()
	must(t, g.db.Pool().Query(t.Context(), harness.Text(g.db, `select e.tenant, e.description, v.type, v.tenant from once_webhook_delivery d join once_webhook_endpoint e on e.id = d.endpoint and e.part = d.part
 join once_webhook_event v on v.id = d.event`), func(row sqlplane.Row) error {
		var tenant, description, kind, of string
		err := row.Scan(&tenant, &description, &kind, &of)
		if of != tenant {
			t.Errorf("an event of %s is on its way to %s", of, tenant)
		}
		list = append(list, fmt.Sprintf("%s [%s] %s", tenant, description, kind))
		return err
	}))
	slices.Sort(list)
	return list
}

func (g *fixture[TX]) want(t *testing.T, want ...string) {
	t.Helper()
	slices.Sort(want)
	if got := g.deliveries(t); !slices.Equal(got, want) {
		t.Errorf("on their way:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func event(tenant, kind string) webhook.Event {
	return webhook.Event{Tenant: tenant, Type: kind, Data: []byte(`{"type":"` + kind + `"}`)}
}
