package saga

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store/sqlplane"
)

// startIn starts sagas in one transaction of the caller each.
func (s system[TX]) startIn(t *testing.T, r *saga.Runner[TX], d *saga.Definition[string, string], id saga.ID) *saga.Handle[string] {
	t.Helper()
	tx, commit, err := s.begin(t.Context())
	must(t, err)
	h, err := saga.Start(t.Context(), r, tx, d, id, id.Key)
	must(t, errors.Join(err, commit()))
	return h
}

// rows counts the sagas in the table of those that wait.
func (s system[TX]) rows(t *testing.T) (n int) {
	t.Helper()
	must(t, s.db.Pool().Query(t.Context(), harness.Text(s.db, "select count(*) from once_saga_due"), func(row sqlplane.Row) error { return row.Scan(&n) }))
	return n
}

// runs runs a runner until the test calls stop.
func runs[TX any](t *testing.T, r *saga.Runner[TX]) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	return func() {
		cancel()
		must(t, <-ended)
	}
}

// TestAnyNode: sagas that were started by a process which does not run them are run by two other nodes, each effect once, and leave nothing in the
// table of those that wait. A saga of another definition is left alone.
func TestAnyNode(t *testing.T) {
	testenv.Both(t)
	on(t, anyNode[pgx.Tx], anyNode[*sql.Tx])
}

func anyNode[TX any](t *testing.T, s system[TX]) {
	s.ttl = patience
	d := s.definition()
	starter := s.runner(s.db, d)
	var keys []string
	for i := range 30 {
		key := fmt.Sprint("order ", i)
		keys = append(keys, key)
		s.startIn(t, starter, d, idOf(key))
	}
	foreign := saga.New("foreign", func(ctx saga.Context, in string) (string, error) { return "", nil })
	s.startIn(t, saga.NewRunner(s.db, saga.Config{TTL: ttl}, foreign), foreign, idOf("foreign"))
	both := make(chan struct{})
	waiting := s
	waiting.at = func(string) { <-both } // the first node has room for 16 of them, and the other one runs the rest
	first, second := s.runner(s.db, waiting.definition()), s.runner(s.db, d)
	stop := runs(t, first)
	takes := func(r *saga.Runner[TX]) {
		t.Helper()
		harness.Until(t, func() error {
			if r.Stats().Taken == 0 {
				return errors.New("a node takes no saga")
			}
			return nil
		})
	}
	takes(first)
	stopSecond := runs(t, second)
	takes(second)
	close(both)
	for _, key := range keys {
		s.until(t, second, key, saga.StateCompleted)
	}
	stop()
	stopSecond()
	for _, key := range keys {
		s.judge(t, key)
	}
	if n := s.rows(t); n != 1 {
		t.Errorf("%d rows are left of sagas that wait, want that of the foreign one", n)
	}
}

// TestWokenSagaGoesOn: a saga waits, with a row in the table, until it is woken in the transaction that writes what it waits for. Then its starter goes on with
// it, or a runner. A wake while a node works on it ends its next wait. A wake of what has ended, or is not there, leaves nothing.
func TestWokenSagaGoesOn(t *testing.T) {
	testenv.Both(t)
	on(t, woken[pgx.Tx], woken[*sql.Tx])
}

func woken[TX any](t *testing.T, s system[TX]) {
	s.ttl = patience
	var asked atomic.Int64
	inside := make(chan struct{}, 1)
	goOn := make(chan struct{}, 1)
	approved := saga.Tx("approved", func(ctx context.Context, tx TX, key string) (string, error) {
		given, err := s.given(ctx, tx, key)
		if asked.Add(1); err == nil && !given {
			err = saga.Again(time.Hour)
		}
		return "", err
	})
	wait := saga.Call("wait", func(ctx context.Context, _, key string) (string, error) {
		if key == "late" {
			inside <- struct{}{}
			<-goOn
			return "", saga.Again(time.Hour)
		}
		return "", nil
	}).SafeToRepeat()
	d := saga.New("approval", func(ctx saga.Context, key string) (string, error) {
		if _, err := wait.Do(ctx, key); err != nil && key == "late" {
			return "", err
		}
		return approved.Do(ctx, key)
	}, approved, wait)
	r := s.runner(s.db, d)
	alone := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	go func() { // no runner runs what is due: only the starter goes on with it
		_, err := saga.Do(ctx, r, d, idOf("alone"), "alone")
		alone <- err
	}()
	waits := func(key string) {
		t.Helper()
		harness.Until(t, func() error {
			if st, err := r.Status(t.Context(), idOf(key)); err != nil || st.State != "waiting" || asked.Load() == 0 || s.rows(t) != 1 {
				return fmt.Errorf("%+v, %w, %d rows", st, err, s.rows(t))
			}
			return nil
		})
	}
	waits("alone")
	s.approve(t, r, "alone")
	if err := <-alone; err != nil {
		t.Errorf("the starter of a saga that was woken: %v", err)
	}
	asked.Store(0)
	defer runs(t, r)()
	h := s.startIn(t, r, d, idOf("a"))
	waits("a")
	s.approve(t, r, "a")
	if _, err := h.Result(ctx); err != nil {
		t.Error(err)
	}
	s.approve(t, r, "a")
	s.approve(t, r, "nothing")
	s.startIn(t, r, d, idOf("late"))
	<-inside
	s.approve(t, r, "late") // while a node works on it
	goOn <- struct{}{}
	select {
	case <-inside: // it has been asked again at once, and not in an hour
		goOn <- struct{}{}
	case <-time.After(patience):
		t.Error("a wake while a node works on the saga is lost")
	}
	harness.Until(t, func() error {
		if n := s.rows(t); n != 1 {
			return fmt.Errorf("%d rows are left of sagas that wait", n)
		}
		return nil
	})
}

// TestTenantsInTurn: a tenant with many sagas that are due does not keep those of another one waiting.
func TestTenantsInTurn(t *testing.T) {
	testenv.Both(t)
	const many = 40
	wanted := []started{{"first", "large", many}, {"first", "small", 2}}
	on(t, func(t *testing.T, s system[pgx.Tx]) { comesSoon(t, s, "small", wanted...) }, func(t *testing.T, s system[*sql.Tx]) { comesSoon(t, s, "small", wanted...) })
}

// TestDefinitionsInTurn: neither does a definition with many tenants those of another definition.
func TestDefinitionsInTurn(t *testing.T) {
	testenv.Both(t)
	// Each definition is the one with few sagas in turn: a node that always began with the same definition would delay one of them.
	few := func(definition, other string) (wanted []started) {
		for i := range 10 {
			wanted = append(wanted, started{other, fmt.Sprint("large ", definition, i), 3})
		}
		return append(wanted, started{definition, "small " + definition, 2})
	}
	on(t, func(t *testing.T, s system[pgx.Tx]) {
		comesSoon(t, s, "small second", few("second", "first")...)
		comesSoon(t, s, "small first", few("first", "second")...)
	}, func(t *testing.T, s system[*sql.Tx]) {
		comesSoon(t, s, "small second", few("second", "first")...)
		comesSoon(t, s, "small first", few("first", "second")...)
	})
}

// started are so many sagas of a definition and a tenant.
type started struct {
	name, tenant string
	n            int
}

// comesSoon starts sagas, runs them on a node with little room, and wants those of a tenant to be among the first half.
func comesSoon[TX any](t *testing.T, s system[TX], small string, wanted ...started) {
	note := saga.Call("note", func(context.Context, string, string) (string, error) { return "", nil }).SafeToRepeat()
	flow := func(ctx saga.Context, tenant string) (string, error) { return note.Do(ctx, tenant) }
	defs := map[string]*saga.Definition[string, string]{"first": saga.New("first", flow, note), "second": saga.New("second", flow, note)}
	var order takenOrder
	r := saga.NewRunner(s.db, saga.Config{TTL: patience, Concurrency: 2, Every: 10 * time.Millisecond, Observer: &order}, defs["first"], defs["second"])
	all := 0
	for _, w := range wanted {
		for i := range w.n {
			tx, commit, err := s.begin(t.Context())
			must(t, err)
			_, err = saga.Start(t.Context(), r, tx, defs[w.name], saga.ID{Tenant: w.tenant, Key: fmt.Sprint(i)}, w.tenant)
			must(t, errors.Join(err, commit()))
		}
		all += w.n
	}
	stop := runs(t, r)
	harness.Until(t, func() error {
		if n := r.Stats().Completed; n < int64(all) {
			return fmt.Errorf("%d sagas have run", n)
		}
		return nil
	})
	stop()
	tenants := order.tenants
	if last := len(tenants) - 1 - slices.Index(reversed(tenants), small); last > all/2 {
		t.Errorf("the small tenant was the %dth of %d: %s", last, len(tenants), strings.Join(tenants, ", "))
	}
}

// takenOrder keeps the tenants of sagas in the order in which a node takes them. What the node then does with each saga may last
// for any time.
type takenOrder struct {
	mu      sync.Mutex
	tenants []string
}

func (o *takenOrder) Observe(_ context.Context, e saga.Event) {
	if e.Type == saga.EventTaken {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.tenants = append(o.tenants, e.ID.Tenant)
	}
}

func reversed(list []string) []string {
	list = slices.Clone(list)
	slices.Reverse(list)
	return list
}

// TestDecisionsAreAudited: what a person decides about a saga that is stuck is in the audit with the decision.
func TestDecisionsAreAudited(t *testing.T) {
	testenv.Both(t)
	on(t, audited[pgx.Tx], audited[*sql.Tx])
}

func audited[TX any](t *testing.T, s system[TX]) {
	charge := saga.Call("charge", func(context.Context, string, string) (string, error) { return "", errors.New("timeout") })
	d := saga.New("test", func(ctx saga.Context, in string) (string, error) { return charge.Do(ctx, in) }, charge)
	r := s.runner(s.db, d)
	if _, err := saga.Do(t.Context(), r, d, idOf("k"), "k"); !errors.Is(err, saga.ErrStuck) {
		t.Fatal(err)
	}
	_, err := saga.Decide(t.Context(), s.db, idOf("k"), saga.Decision{Action: saga.ActionForce, Step: "charge", Value: []byte(`"paid"`), Who: "ada", Reason: "the provider says so"})
	must(t, err)
	if v, err := saga.Do(t.Context(), r, d, idOf("k"), "k"); v != "paid" || err != nil {
		t.Errorf("%q, %v", v, err)
	}
	p, err := operate.NewKeys(s.db).Audit(t.Context(), operate.AuditFilter{})
	if err != nil || len(p.Items) != 1 || p.Items[0].Who != "ada" || p.Items[0].Action != "saga force" || !strings.Contains(p.Items[0].Detail, `"charge" has happened`) {
		t.Errorf("%+v, %v", p, err)
	}
}
