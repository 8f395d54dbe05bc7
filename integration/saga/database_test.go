package saga

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/store/sqlplane"
)

func TestMain(m *testing.M) { harness.Main[plan](m) }

func must(tb testing.TB, err error) { tb.Helper(); harness.Must(tb, err) }

const (
	ttl      = 200 * time.Millisecond
	patience = 90 * time.Second // bounds what must come: a hang is a failure
)

func newDatabase(tb testing.TB, kind string) harness.Database {
	tb.Helper()
	return harness.Migrated(tb, kind, sets, effects, served)
}

var sets = []migration.Set{saga.Migrations, operate.Migrations}

// effects has no unique key: only the saga keeps a step from being committed twice.
const effects = "create table effect (saga varchar(200) not null, what varchar(100) not null)"

// served are the keys that the service has answered.
const served = "create table served (id varchar(200) primary key)"

// on runs a test on each database.
func on(t *testing.T, overPgx func(*testing.T, system[pgx.Tx]), overSQL func(*testing.T, system[*sql.Tx])) {
	t.Helper()
	onKinds(t, harness.Servers, overPgx, overSQL)
}

func onKinds(t *testing.T, kinds []string, overPgx func(*testing.T, system[pgx.Tx]), overSQL func(*testing.T, system[*sql.Tx])) {
	t.Helper()
	harness.Each(t, kinds, func(t *testing.T, kind string) {
		t.Helper()
		d := newDatabase(t, kind)
		if kind == harness.Pgx {
			s, _ := harness.OpenPgx(t, d)
			overPgx(t, system[pgx.Tx]{Database: d, db: s})
			return
		}
		s, _ := harness.OpenSQL(t, d)
		overSQL(t, system[*sql.Tx]{Database: d, db: s})
	})
}

// system is sagas on a database.
type system[TX any] struct {
	harness.Database

	db    harness.Store[TX]
	no    bool          // the last step says no
	waits bool          // before its third step, or before that is undone if the last one says no
	ttl   time.Duration // of its nodes; zero means 200 ms, for a test in which nodes die
	at    func(point string)
}

// begin begins a transaction of the caller.
func (s system[TX]) begin(ctx context.Context) (tx TX, commit func() error, err error) {
	txn, _, err := s.db.Begin(ctx, store.BeginOptions{})
	if err != nil {
		return tx, nil, err
	}
	return txn.Tx(), func() error { return txn.Commit(ctx, store.Change{}) }, nil
}

func (s system[TX]) insert(key, what string) store.Statement {
	return harness.Text(s.db, "insert into effect (saga, what) values (?, ?)", key, what)
}

// given reports whether a saga has what it waits for.
func (s system[TX]) given(ctx context.Context, tx TX, key string) (given bool, err error) {
	err = s.db.On(tx).Query(ctx, harness.Text(s.db, "select 1 from effect where saga = ?", "approval "+key), func(sqlplane.Row) error { given = true; return nil })
	return given, err
}

// approve gives a saga what it waits for, and wakes it.
func (s system[TX]) approve(t *testing.T, r *saga.Runner[TX], key string) {
	t.Helper()
	tx, commit, err := s.begin(t.Context())
	must(t, err)
	_, err = s.db.On(tx).Exec(t.Context(), s.insert("approval "+key, "yes"))
	must(t, errors.Join(err, r.Wake(t.Context(), tx, idOf(key)), commit()))
}

// approval is a step that waits, or whose undo does if the last step says no.
func (s system[TX]) approval() *saga.TxStep[TX, string, string] {
	waits := func(ctx context.Context, tx TX, key string) error {
		given, err := s.given(ctx, tx, key)
		if err == nil && !given {
			err = saga.Again(time.Hour)
		}
		return err
	}
	return saga.Tx("approve", func(ctx context.Context, tx TX, key string) (string, error) {
		if s.no {
			return "", nil
		}
		return "", waits(ctx, tx, key)
	}).Undo(func(ctx context.Context, tx TX, key, _ string) error { return waits(ctx, tx, key) })
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
	approve := s.approval()
	return saga.New("order", func(ctx saga.Context, key string) (string, error) {
		if _, err := reserve.Do(ctx, key); err != nil {
			return "", err
		}
		if _, err := charge.Do(ctx, key); err != nil {
			return "", err
		}
		if s.waits {
			if _, err := approve.Do(ctx, key); err != nil {
				return "", err
			}
		}
		if _, err := book.Do(ctx, key); err != nil {
			return "", err
		}
		return ship.Do(ctx, key)
	}, reserve, charge, approve, book, ship)
}

// service takes effect once for each key: it is another service, with a database of its own in the same server.
func (s system[TX]) service(ctx context.Context, callKey, key, what string) error {
	ctx = context.WithoutCancel(ctx)
	if s.at != nil {
		s.at("request")
		defer s.at("answered")
	}
	return s.db.Within(ctx, store.ReadCommitted, func(ctx context.Context, r sqlplane.Runner) error {
		n, err := r.Exec(ctx, harness.Text(s.db, "insert into served (id) values (?) KEEP(id)", callKey))
		if err != nil || n == 0 {
			return err
		}
		_, err = r.Exec(ctx, s.insert(key, what))
		return err
	})
}

func (s system[TX]) runner(of store.Store[TX], d saga.AnyDefinition) *saga.Runner[TX] {
	return saga.NewRunner(of, saga.Config{
		TTL: cmp.Or(s.ttl, ttl), Backoff: 10 * time.Millisecond, MaxBackoff: 50 * time.Millisecond, Every: 20 * time.Millisecond, Observer: saga.Log(slog.New(slog.DiscardHandler)),
	}, d)
}

func idOf(key string) saga.ID { return saga.ID{Tenant: "acme", Key: key} }

// finish has another node bring sagas to their end.
func (s system[TX]) finish(t *testing.T, keys ...string) {
	t.Helper()
	d := s.definition()
	r := s.runner(s.db, d)
	stop := runs(t, r)
	for _, key := range keys {
		harness.Until(t, func() error {
			switch st, err := r.Status(t.Context(), idOf(key)); {
			case err != nil:
				return err
			case st.State != "completed" && st.State != "compensated":
				return fmt.Errorf("%s: %+v", key, st)
			}
			return nil
		})
	}
	stop()
}

// judge compares the effects of a saga with its end.
func (s system[TX]) judge(t *testing.T, key string) {
	t.Helper()
	st, err := s.runner(s.db, s.definition()).Status(t.Context(), idOf(key))
	must(t, err)
	count := map[string]int{}
	must(t, s.db.Pool().Query(t.Context(), harness.Text(s.db, "select what from effect where saga = ?", key), func(row sqlplane.Row) error {
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
