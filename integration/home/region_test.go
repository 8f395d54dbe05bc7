package home

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/home"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/store/sqlplane"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func must(tb testing.TB, err error) { tb.Helper(); harness.Must(tb, err) }

var names = []string{"ap", "eu", "us"}

// kinds are those that package home works on.
var kinds = []string{harness.Pgx, harness.SQLite, harness.Postgres}

var sets = []migration.Set{home.Migrations, saga.Migrations}

const (
	// effects has no unique key: only package home keeps a key from taking effect in two regions. It does not move.
	effects = "create table effect (tenant varchar(100) not null, what varchar(100) not null)"

	// accounts move with their tenant.
	accounts = "create table account (tenant varchar(100) primary key, n bigint not null)"
)

// region is a service in one region.
type region[TX any] struct {
	name   string
	db     harness.Store[TX]
	owned  *home.Store[TX]
	engine *once.Engine[TX]
	known  *home.Map
}

// system is a service in three regions.
type system[TX any] map[string]*region[TX]

// on runs a test on three databases of each kind.
func on(t *testing.T, overPgx func(*testing.T, system[pgx.Tx]), overSQL func(*testing.T, system[*sql.Tx])) {
	t.Helper()
	harness.Each(t, kinds, func(t *testing.T, kind string) {
		t.Helper()
		if kind == harness.Pgx {
			overPgx(t, open(t, kind, func(d harness.Database) harness.Store[pgx.Tx] { s, _ := harness.OpenPgx(t, d); return s }))
			return
		}
		overSQL(t, open(t, kind, func(d harness.Database) harness.Store[*sql.Tx] { s, _ := harness.OpenSQL(t, d); return s }))
	})
}

func open[TX any](tb testing.TB, kind string, store func(harness.Database) harness.Store[TX]) system[TX] {
	tb.Helper()
	all := system[TX]{}
	for _, name := range names {
		r := &region[TX]{name: name, db: store(harness.Migrated(tb, kind, sets, effects, accounts)), known: home.NewMap(names...)}
		r.owned = home.New[TX](r.db, r.known)
		r.engine = once.New[TX](r.owned, once.Config{Observer: once.Discard})
		all[name] = r
	}
	return all
}

// mover moves tenants and their accounts. kill is what it may die of.
func (s system[TX]) mover(kill *killer) home.Mover {
	m := home.Mover{Regions: map[string]sqlplane.Database{}}
	for _, r := range s {
		m.Regions[r.name] = mortal{r.db, kill}
	}
	m.Rows = func(ctx context.Context, h home.Handover) error {
		return kill.at(func() error { return s.moveRows(ctx, h) })
	}
	m.Publish = func(_ context.Context, tenant string, p home.Pin) error {
		return kill.at(func() error {
			for _, r := range s {
				r.known.Pin(tenant, p)
			}
			return nil
		})
	}
	return m
}

// moveRows moves an account as the documentation of home.Handover says.
func (s system[TX]) moveRows(ctx context.Context, h home.Handover) error {
	from, to := s[h.From].db, s[h.To].db
	var n int64
	err := from.Pool().Query(ctx, harness.Text(from, "select n from account where tenant = ?", h.Tenant), func(row sqlplane.Row) error { return row.Scan(&n) })
	if err != nil {
		return err
	}
	return to.Within(ctx, store.ReadCommitted, func(ctx context.Context, r sqlplane.Runner) error {
		current := false
		err := r.Query(ctx, harness.Text(to, "select true from once_home where tenant = ? and epoch = ? and not owned FOR UPDATE", h.Tenant, h.Epoch), func(row sqlplane.Row) error { return row.Scan(&current) })
		if err == nil && !current {
			err = errors.New("another run of the move has taken over")
		}
		if err != nil {
			return err
		}
		_, err = r.Exec(ctx, harness.Text(to, "insert into account (tenant, n) values (?, ?) UPSERT(tenant) n = NEW(n)", h.Tenant, n))
		return err
	})
}

// pay is an operation of a tenant.
func (r *region[TX]) pay(ctx context.Context, tenant, key string) (once.Result[string], error) {
	op := once.Operation{Scope: tenant + " POST /pay", Key: key}
	return once.Do(ctx, r.engine, op, func(ctx context.Context, tx TX) (string, error) { return r.name, r.write(ctx, tx, tenant, key) })
}

// write is what an operation writes.
func (r *region[TX]) write(ctx context.Context, tx TX, tenant, key string) error {
	run := r.db.On(tx)
	_, err := run.Exec(ctx, harness.Text(r.db, "insert into effect (tenant, what) values (?, ?)", tenant, key))
	if err == nil {
		_, err = run.Exec(ctx, harness.Text(r.db, "insert into account (tenant, n) values (?, 1) UPSERT(tenant) n = account.n + 1", tenant))
	}
	return err
}

// effects counts what keys have done in all regions.
func (s system[TX]) effects(tb testing.TB, tenant string) (of map[string]int) {
	tb.Helper()
	of = map[string]int{}
	for _, r := range s {
		must(tb, r.db.Pool().Query(tb.Context(), harness.Text(r.db, "select what from effect where tenant = ?", tenant), func(row sqlplane.Row) error {
			var what string
			err := row.Scan(&what)
			of[what]++
			return err
		}))
	}
	return of
}

// owners are the regions that own a tenant.
func (s system[TX]) owners(tb testing.TB, tenant string) (list []string) {
	tb.Helper()
	all, err := s.mover(nil).Show(tb.Context(), tenant)
	must(tb, err)
	for _, st := range all {
		if st.Owned {
			list = append(list, st.Region)
		}
	}
	return list
}

// judge fails the test unless a tenant is owned by a region that answers all of its keys, each of which has taken effect once, and has its account.
func (s system[TX]) judge(tb testing.TB, tenant, owner string, keys ...string) {
	tb.Helper()
	if got := s.owners(tb, tenant); len(got) != 1 || got[0] != owner {
		tb.Fatalf("%s is owned by %q, want %s", tenant, got, owner)
	}
	for _, key := range keys {
		if _, err := s[owner].pay(tb.Context(), tenant, key); err != nil {
			tb.Errorf("%s of %s in %s: %v", key, tenant, owner, err)
		}
	}
	of := s.effects(tb, tenant)
	for _, key := range keys {
		if of[key] != 1 {
			tb.Errorf("%s of %s has taken effect %d times", key, tenant, of[key])
		}
	}
	if n := harness.Count(tb, s[owner].db, "select n from account where tenant = ?", tenant); n != len(of) {
		tb.Errorf("the account of %s has %d, and %d keys have taken effect: %v", tenant, n, len(of), slices.Sorted(maps.Keys(of)))
	}
}

// isRefused reports whether a call was refused because the tenant does not live there, or is about to leave.
func isRefused(err error) bool {
	return errors.As(err, new(*home.NotHomeError)) && once.CodeOf(err) == once.CodeUnavailable && once.EffectOf(err) == once.EffectNotApplied
}

var errDead = errors.New("killed")

// killer ends a mover at its n-th step, before it or when it is done: everything after that fails, as in a process that is killed.
type killer struct {
	n      int
	after  bool
	passed int
	dead   bool
}

// at is a step.
func (k *killer) at(do func() error) error {
	if k == nil {
		return do()
	}
	if err := k.before(); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	return k.done()
}

func (k *killer) before() error {
	if k.passed++; k.passed == k.n && !k.after {
		k.dead = true
	}
	return k.alive()
}

func (k *killer) done() error {
	k.dead = k.dead || k.passed == k.n
	return k.alive()
}

func (k *killer) alive() error {
	if k != nil && k.dead {
		return errDead
	}
	return nil
}

func (k *killer) String() string { return fmt.Sprintf("killed at step %d, done %t", k.n, k.after) }

// mortal is a database of a mover that may die at each statement and commit.
type mortal struct {
	sqlplane.Database

	kill *killer
}

func (m mortal) Pool() sqlplane.Runner { return mortalRunner{m.Database.Pool(), m.kill} }

func (m mortal) Within(ctx context.Context, isolation store.Isolation, fn func(ctx context.Context, r sqlplane.Runner) error) error {
	if m.kill == nil {
		return m.Database.Within(ctx, isolation, fn)
	}
	err := m.Database.Within(ctx, isolation, func(ctx context.Context, r sqlplane.Runner) error {
		if err := fn(ctx, mortalRunner{r, m.kill}); err != nil {
			return err
		}
		return m.kill.before()
	})
	if err == nil {
		err = m.kill.done()
	}
	return err
}

type mortalRunner struct {
	sqlplane.Runner

	kill *killer
}

func (r mortalRunner) Exec(ctx context.Context, st store.Statement) (n int64, err error) {
	err = r.kill.at(func() error { n, err = r.Runner.Exec(ctx, st); return err })
	return n, err
}

func (r mortalRunner) Query(ctx context.Context, st store.Statement, each func(sqlplane.Row) error) error {
	if strings.HasPrefix(st.SQL, "select") { // what does not change the database is no point
		return errors.Join(r.kill.alive(), r.Runner.Query(ctx, st, each))
	}
	return r.kill.at(func() error { return r.Runner.Query(ctx, st, each) })
}
