package hookrelay

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/webhook"
	"github.com/oncelib/once/webhook/ssrf"
)

func TestMain(m *testing.M) { harness.Main[plan](m) }

var sets = []migration.Set{migration.Operation, webhook.Migrations}

// fixture is a database with webhooks, and the street of their endpoints.
type fixture struct {
	database harness.Database
	to       *street
	config   *webhook.Config // of hooks from now on
	db       sqlplane.Database
	hooks    func(w *watch) relayer
}

// relayer is a webhook.Hooks of any transaction.
type relayer interface {
	Relay(cfg webhook.RelayConfig) *webhook.Relay
	Endpoints() *webhook.Endpoints
	Handler(prefix string, tenantOf func(*http.Request) string) http.Handler
}

func newFixture(t *testing.T, kind string) *fixture {
	t.Helper()
	to := newStreet(t)
	return openFixture(t, harness.Migrated(t, kind, sets), to)
}

func openFixture(t *testing.T, d harness.Database, to *street) *fixture {
	t.Helper()
	cfg := config(to.url)
	g := &fixture{database: d, to: to, config: &cfg}
	if d.Kind == harness.Pgx {
		s, _ := harness.OpenPgx(t, d)
		g.db, g.hooks = s, func(w *watch) relayer { return webhook.New[pgx.Tx](watched[pgx.Tx]{s, w}, cfg) }
		return g
	}
	s, _ := harness.OpenSQL(t, d)
	g.db, g.hooks = s, func(w *watch) relayer { return webhook.New[*sql.Tx](watched[*sql.Tx]{s, w}, cfg) }
	return g
}

// config allows endpoints in this process.
func config(text string) webhook.Config {
	u, err := url.Parse(text)
	if err != nil {
		panic(err)
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil {
		panic(err)
	}
	return webhook.Config{PlainSecrets: true, Guard: &ssrf.Guard{
		AllowHTTP: true, AllowPorts: []uint16{uint16(port)}, AllowPrefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	}}
}

// relay returns a relay that keeps its parts, and waits for endpoints, also when the machine is so busy that nothing happens for seconds.
func (g *fixture) relay(w *watch, cfg webhook.RelayConfig) *webhook.Relay {
	cfg.TTL, cfg.Timeout = cmp.Or(cfg.TTL, patience), cmp.Or(cfg.Timeout, patience)
	if cfg.Observer == nil {
		cfg.Observer = newEvents()
	}
	return g.hooks(w).Relay(cfg)
}

// start runs a relay until stop is called, or the test ends.
func (g *fixture) start(t *testing.T, w *watch, cfg webhook.RelayConfig) (stop func()) {
	t.Helper()
	r := g.relay(w, cfg)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(2 * patience):
			t.Error("a relay does not end")
		}
	})
	t.Cleanup(func() {
		g.to.end()
		stop()
	})
	return stop
}

// endpoint is one that a test makes.
type endpoint struct {
	id          int64
	uid, tenant string
	ordered     bool
	rate        float64
	concurrency int
}

// endpoints makes endpoints, which want all types, and have ids from first on.
func (g *fixture) endpoints(t *testing.T, list ...endpoint) {
	t.Helper()
	must(t, g.db.Within(t.Context(), store.ReadCommitted, func(ctx context.Context, r sqlplane.Runner) error {
		for _, e := range list {
			_, err := r.Exec(ctx, harness.Text(g.db, `insert into once_webhook_endpoint (id, uid, part, tenant, url, types, description, headers, secret, encrypted, ordered, rate, concurrency, disabled_by, created_at, version)
 values (?, ?, ?, ?, ?, ' * ', '', ?, ?, ?, ?, ?, ?, '', NOW, 1)`, e.id, e.uid, e.id%64, e.tenant, g.to.url+"/"+e.uid, []byte("{}"), []byte(secret), false, e.ordered, e.rate, e.concurrency))
			if err != nil {
				return err
			}
		}
		return nil
	}))
}

// send sends n events to a tenant in one transaction. Their ids are prefix and a number.
func (g *fixture) send(t *testing.T, tenant, prefix string, n int) {
	t.Helper()
	must(t, g.sendOn(t.Context(), tenant, prefix, n))
}

func (g *fixture) sendOn(ctx context.Context, tenant, prefix string, n int) error {
	return g.db.Within(ctx, store.ReadCommitted, func(ctx context.Context, r sqlplane.Runner) error {
		for i := range n {
			id := fmt.Sprintf("%s-%d", prefix, i)
			_, err := r.Exec(ctx, harness.Text(g.db, "insert into once_webhook_event (uid, tenant, type, data, encrypted, created_at) values (?, ?, 't', ?, ?, NOW)", id, tenant, []byte(`{"n":"`+id+`"}`), false))
			if err == nil {
				_, err = r.Exec(ctx, harness.Text(g.db, `insert into once_webhook_delivery (endpoint, event, part, due_at, attempts, cause, created_at)
 select e.id, v.id, e.part, v.created_at, 0, '', v.created_at from once_webhook_event v join once_webhook_endpoint e on e.tenant = v.tenant where e.disabled_at is null and v.uid = ?`, id))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (g *fixture) count(t *testing.T, query string, args ...any) int {
	t.Helper()
	return harness.Count(t, g.db, query, args...)
}

func (g *fixture) exec(t *testing.T, query string, args ...any) int64 {
	t.Helper()
	return harness.Exec(t, g.db, query, args...)
}

// until waits until a query returns a number. How endpoints are doing is written down a little later than what has become of their deliveries.
func (g *fixture) until(t *testing.T, what string, want int, query string) {
	t.Helper()
	harness.Until(t, func() error {
		if n := g.count(t, query); n != want {
			return fmt.Errorf("%d %s, want %d", n, what, want)
		}
		return nil
	})
}

// settled waits until nothing waits for an attempt.
func (g *fixture) settled(t *testing.T, e *events, delivered int) {
	t.Helper()
	e.wait(t, webhook.EventDelivered, "", delivered)
	if n := g.count(t, "select count(*) from once_webhook_delivery where due_at is not null"); n > 0 {
		t.Errorf("%d deliveries are left", n)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	harness.Must(t, err)
}

// watch sees the statements of a relay, and can keep them waiting or fail them.
type watch struct {
	before func(st store.Statement) error // an error is the statement's, which is not run
	row    func(st store.Statement)       // before each row that a statement returns: what it has read, it has read
	hides  func(st store.Statement) bool  // true: a standby answers that has none of the rows yet
	after  func(st store.Statement, err error) error
}

type watched[TX any] struct {
	sqlplane.SQL[TX]

	w *watch
}

// Unwrap has abilities of the store found.
func (s watched[TX]) Unwrap() any { return s.SQL }

func (s watched[TX]) Pool() sqlplane.Runner { return watchedRunner{s.SQL.Pool(), s.w} }

func (s watched[TX]) On(tx TX) sqlplane.Runner { return watchedRunner{s.SQL.On(tx), s.w} }

func (s watched[TX]) Within(ctx context.Context, isolation store.Isolation, fn func(ctx context.Context, r sqlplane.Runner) error) error {
	return s.SQL.Within(ctx, isolation, func(ctx context.Context, r sqlplane.Runner) error { return fn(ctx, watchedRunner{r, s.w}) })
}

type watchedRunner struct {
	sqlplane.Runner

	w *watch
}

func (r watchedRunner) Exec(ctx context.Context, st store.Statement) (n int64, err error) {
	if r.w != nil && r.w.before != nil {
		if err := r.w.before(st); err != nil {
			return 0, err
		}
	}
	n, err = r.Runner.Exec(ctx, st)
	if r.w != nil && r.w.after != nil {
		err = r.w.after(st, err)
	}
	return n, err
}

func (r watchedRunner) Append(ctx context.Context, st store.Statement) error {
	if r.w != nil && r.w.before != nil {
		if err := r.w.before(st); err != nil {
			return err
		}
	}
	return r.Runner.Append(ctx, st)
}

func (r watchedRunner) Query(ctx context.Context, st store.Statement, each func(sqlplane.Row) error) error {
	if r.w != nil && r.w.before != nil {
		if err := r.w.before(st); err != nil {
			return err
		}
	}
	if r.w != nil && r.w.hides != nil && r.w.hides(st) {
		return nil
	}
	return r.Runner.Query(ctx, st, func(row sqlplane.Row) error {
		if r.w != nil && r.w.row != nil {
			r.w.row(st)
		}
		return each(row)
	})
}
