package integration

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/upkeep"
)

// TestClockStepsByAnHour steps the clock of the database by an hour, forth and back: at each named
// point of an operation, while a commit is in doubt, and under leases. What was stored
// is there for as long as it was promised, less an hour at the most, and what is not
// finished stays.
func TestClockStepsByAnHour(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	testenv.Need(t, "postgresql", "mariadb", "mysql", "faketime")
	for _, name := range []string{harness.Pgx, harness.Postgres, harness.MariaDB, harness.MySQL, harness.SQLite} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sampleMySQL(t, name)
			start := time.Now()
			c := clockTestDB(t, name)
			points := c.everywhere(t)
			c.inDoubt(t)
			c.leases(t)
			testenv.Count("steps of the clock", points)
			testenv.Reportf(t, "%s: %d steps of the clock at named points; %v; in %v", name, points, &c.met, time.Since(start).Round(time.Millisecond))
			if points < 40 {
				t.Errorf("vacuous: only %d points. %s", points, rerun(t))
			}
			if err := c.met.vacuous(); err != nil {
				t.Errorf("%v. %s", err, rerun(t))
			}
		})
	}
}

// clocked is a database whose clock can be set.
type clocked struct {
	*testDB

	set func(ahead time.Duration) error
	met doubts
}

var ownClock sqliteClock

func clockTestDB(t *testing.T, name string) *clocked {
	t.Helper()
	switch name {
	case harness.SQLite:
		if err := ownClock.register(); err != nil {
			t.Fatal(err)
		}
		g := sqliteTestDB(t, name, "WAL")
		g.DSN += "&vfs=" + sqliteClockName
		return &clocked{testDB: g, set: func(ahead time.Duration) error {
			ownClock.ahead.Store(ahead.Milliseconds())
			return nil
		}}
	case harness.MariaDB, harness.MySQL:
		m := startInnoDB(t, name, testenv.MariaDBConfig{Clock: true})
		return &clocked{testDB: serverTestDB(t, name, m.DSN("mysql")), set: m.SetClock}
	}
	pg, err := testenv.StartPostgres(t.Context(), testenv.PostgresConfig{Clock: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pg.Close() })
	return &clocked{testDB: serverTestDB(t, name, pg.URL("postgres")), set: pg.SetClock}
}

// steps of the clock.
var steps = []time.Duration{time.Hour, -time.Hour}

// must sets the clock.
func (c *clocked) must(t *testing.T, ahead time.Duration) {
	t.Helper()
	if err := c.set(ahead); err != nil {
		t.Fatal(err)
	}
}

// everywhere steps at each named point. Then it lets everything expire, and sweeps.
func (c *clocked) everywhere(t *testing.T) (points int) {
	t.Helper()
	const kept = 2 * time.Hour
	here, passed, stepped := 0, 0, false // the point to step at, how many there have been, and whether it was one
	var step time.Duration
	hook := func(string) {
		if passed++; passed == here {
			c.must(t, step)
			stepped = true
		}
	}
	s := c.open(t, setup{hook: hook, engine: once.Config{Retain: kept}})
	unfinished := c.unfinished(t, s.Ledger())
	operations := 0
	for _, flow := range []string{flowDo, flowFailure, flowJoin} {
		for _, step = range steps {
			for at := 1; ; at++ {
				key := fmt.Sprintf("%s-%v-%d", flow, step > 0, at)
				here, passed, stepped = at, 0, false
				answered := func() { here = 0 } // what follows is not stepped in
				if err := c.visit(t, s, flow, key, hook, step, answered); err != nil {
					t.Fatalf("%s: the clock steps by %v at point %d: %v. %s", flow, step, at, err, rerun(t))
				}
				operations++
				if !stepped {
					break
				}
				points++
			}
		}
	}
	for ahead, want := range map[time.Duration]int{-time.Hour: 0, 0: 0, 4 * time.Hour: operations} {
		c.must(t, ahead)
		var swept upkeep.Swept
		var err error
		for part := (upkeep.Swept{Rows: 1}); part.Rows > 0 && err == nil; swept.Rows += part.Rows { // SQLite is swept in parts
			part, err = s.Sweep(t.Context(), upkeep.Sweep{Limit: 10 * operations})
		}
		if err != nil || swept.Rows != want {
			t.Errorf("a sweep by a clock that is %v ahead has removed %d rows of %d, want %d (%v)", ahead, swept.Rows, operations, want, err)
		}
	}
	for id, want := range unfinished {
		rec, err := s.Ledger().Read(t.Context(), id)
		if err != nil || rec.State != want {
			t.Errorf("what is not finished was %v, and is %v (%v)", want, rec.State, err)
		}
	}
	c.must(t, 0)
	return points
}

// visit performs an operation, and asks for it again before and after the clock has
// stepped back to where it was, and to the other side.
func (c *clocked) visit(t *testing.T, s system, flow, key string, hook func(string), step time.Duration, answered func()) error {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cl := &client{s: s, name: "client", flow: flow, op: operation(key), like: work{hook: hook}}
	got, err := cl.insist(ctx)
	answered()
	if err != nil {
		return err
	}
	for _, ahead := range []time.Duration{step, 0, -step, 0} {
		if ahead == time.Hour && step < 0 { // it was kept until an hour from now, by this clock
			continue
		}
		c.must(t, ahead)
		again, _, err := s.Another().Do(ctx, cl.op, work{key: key, attempt: "duplicate"})
		if err != nil || again != got {
			return fmt.Errorf("by a clock that is %v ahead the answer %v has become %v (%w)", ahead, got, again, err)
		}
	}
	return c.truthful(ctx, cl, got)
}

// unfinished operations, whose leases are over by any clock.
func (c *clocked) unfinished(t *testing.T, l store.Operations) map[store.ID]store.State {
	t.Helper()
	all := map[store.ID]store.State{}
	for _, state := range []store.State{store.StateRunning, store.StateUnknown} {
		id := store.ID{Scope: scope, Key: "unfinished " + state.String()}
		hold(t, l, store.Change{ID: id, Next: store.Record{State: store.StateRunning, Fence: 1, Nonce: []byte("holder")}, Lease: time.Minute})
		if state == store.StateUnknown {
			hold(t, l, store.Change{ID: id, Expect: store.Expect{Fence: 1}, Next: store.Record{State: state, Fence: 1, Nonce: []byte("holder")}})
		}
		all[id] = state
	}
	return all
}

func hold(t *testing.T, l store.Operations, ch store.Change) {
	t.Helper()
	if _, err := l.Swap(t.Context(), ch); err != nil {
		t.Fatalf("%+v: %v", ch, err)
	}
}

// inDoubt steps when the answer to a commit is lost, also by more than the record is
// kept.
func (c *clocked) inDoubt(t *testing.T) {
	t.Helper()
	for _, step := range steps {
		for _, retain := range []time.Duration{time.Minute, 2 * time.Hour} {
			for _, flow := range []string{flowDo, flowFailure} {
				for _, applied := range []bool{true, false} {
					c.must(t, 0)
					f := &forgetting{applied: applied, then: func() { c.must(t, step) }}
					if err := c.forget(t, f, flow, retain); err != nil {
						t.Fatalf("%s, applied %t, kept for %v, and the clock steps by %v: %v. %s", flow, applied, retain, step, err, rerun(t))
					}
				}
			}
		}
	}
	c.must(t, 0)
}

func (c *clocked) forget(t *testing.T, f *forgetting, flow string, retain time.Duration) error {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s := c.open(t, setup{forget: f, conns: 2, engine: once.Config{Retain: retain, Observer: &c.met}})
	defer s.Close()
	cl := &client{s: s, name: "client", flow: flow, op: operation(once.NewKey()), first: func() { f.armed = true }}
	got, told := cl.ask(ctx)
	if told != nil {
		var err error
		if got, err = cl.insist(ctx); err != nil {
			return errors.Join(told, err)
		}
	}
	again, _, err := s.Another().Do(ctx, cl.op, work{key: cl.op.Key, attempt: "duplicate"})
	switch {
	case f.lost != 1:
		err = fmt.Errorf("vacuous: %d answers were lost", f.lost)
	case err == nil && again != got:
		err = fmt.Errorf("the answer was %v, the repeated one is %v", got, again)
	case err == nil && f.applied && told != nil:
		err = fmt.Errorf("it was applied, and the caller was told %w", told)
	}
	return errors.Join(err, c.truthful(ctx, cl, got))
}

// leases: one that has lapsed an hour too early is taken over, and its holder writes
// nothing more; one that lapses an hour too late is its holder's.
func (c *clocked) leases(t *testing.T) {
	t.Helper()
	s := c.open(t, setup{})
	l := s.Ledger()
	const lease = 30 * time.Minute
	for _, step := range steps {
		id := store.ID{Scope: scope, Key: fmt.Sprint("lease ", step)}
		c.must(t, 0)
		hold(t, l, store.Change{ID: id, Next: store.Record{State: store.StateRunning, Fence: 1, Nonce: []byte("one")}, Lease: lease})
		c.must(t, step)
		takeover := store.Change{ID: id, Expect: store.Expect{Fence: 1, LeaseExpired: true}, Next: store.Record{State: store.StateRunning, Fence: 2, Nonce: []byte("two")}, Lease: lease}
		finish := store.Change{ID: id, Expect: store.Expect{Fence: 1}, Next: store.Record{State: store.StateDone, Fence: 1, Nonce: []byte("one")}, Retain: 2 * time.Hour}
		rec, err := l.Read(t.Context(), id)
		if err != nil || rec.LeaseExpired != (step > 0) {
			t.Errorf("a lease of %v, and the clock steps by %v: lapsed %t (%v)", lease, step, rec.LeaseExpired, err)
		}
		_, taken := l.Swap(t.Context(), takeover)
		_, finished := l.Swap(t.Context(), finish)
		if (taken == nil) != (step > 0) || (finished == nil) != (step < 0) || store.KindOf(errors.Join(taken, finished)) != store.KindTaken {
			t.Errorf("the clock steps by %v: takeover %v, finish by the first holder %v", step, taken, finished)
		}
	}
	c.must(t, 0)
}
