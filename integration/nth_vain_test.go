package integration

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
)

// TestNthVain is TestNthStatementFails for a caller who says that an operation is asked for the first
// time, and is wrong. On pgxstore its handler runs in vain, and the insert of its record is
// what fails, with the COMMIT that the server then skips behind it. So it is with sqlstore on MariaDB and MySQL, in packets; on other databases
// it looks first whatever it was told.
func TestNthVain(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	testenv.Need(t, "postgresql", "mariadb", "mysql")
	for _, store := range []string{harness.Pgx, harness.Postgres, harness.MariaDB, harness.MySQL} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			g := newTestDB(t, store)
			line := newToll(t, address(t, g.DSN), wireOf(store))
			v := newVain(t, g, line, setup{dsn: line.dsn(g.DSN)})
			v.all(faultsOf(store))
			if store == harness.Pgx && line.skipped == 0 {
				t.Errorf("vacuous: the server has skipped nothing. %s", rerun(t))
			}
			testenv.Reportf(t, "%d runs in vain; %d statements that were to fail were skipped", v.runs.Load(), line.skipped)
			if innodb(store) { // in packets
				v.report(20)
			} else {
				v.report(40)
			}
		})
	}
	t.Run(harness.SQLite, func(t *testing.T) {
		t.Parallel()
		g, line := sqliteTripped(t, "WAL")
		v := newVain(t, g, line, setup{opens: line.open})
		v.all(sqliteFaults())
		v.report(60)
	})
}

// soon bounds COMMIT, and what its caller may wait for it. Nothing here is slow: who waits
// for that long waits for an answer that never comes.
const soon = 20 * time.Second

// vain is the loop for those who are wrong.
type vain struct {
	*nth
	other system       // of a process whose line is good
	runs  atomic.Int64 // that were in vain
}

func newVain(t *testing.T, g *testDB, line obstacle, su setup) *vain {
	t.Helper()
	v := new(vain)
	su.engine.Settle = soon
	su.hook = func(place string) {
		if place == "taken" {
			v.runs.Add(1)
		}
	}
	v.nth = newNth(t, g, line, su)
	v.other = g.open(t, setup{conns: 2})
	return v
}

func (v *vain) all(faults []fault) {
	v.Helper()
	lies := course{flow: flowReplay, op: first}
	v.passes("no fault", func() {
		if _, err := v.strike(v.Context(), math.MaxInt, fault{}, lies, func() {}); err != nil {
			v.Fatal(err)
		}
	}, vainly...)
	for _, f := range faults {
		for _, swallows := range []bool{false, true} {
			c := lies
			c.swallows = swallows
			v.passes(f.name, func() { v.loop(f, c, nil) }, vainly...)
		}
		v.passes(f.name+", in flight", func() { v.visits(f, v.inFlight) }, vainly...)
		v.passes(f.name+", over HTTP", func() { v.visits(f, v.overHTTP) }, vainly...)
	}
	// Who looks before he has the lock may see what was before it.
	v.passes("the holder ends", func() { v.visits(fault{name: "the holder ends"}, v.inFlight) }, append([]string{harness.Postgres}, vainly...)...)
}

// vainly are the stores that do not look up what they are told is asked for the first time.
var vainly = []string{harness.Pgx, harness.MariaDB, harness.MySQL}

// passes fails unless handlers have run in vain on these stores, and on no others.
func (v *vain) passes(name string, loop func(), stores ...string) {
	v.Helper()
	before := v.runs.Load()
	loop()
	if runs := v.runs.Load() - before; (runs > 0) != slices.Contains(stores, v.g.Kind) {
		v.Errorf("%s: %d runs in vain. %s", name, runs, rerun(v))
	}
}

// visits visits every point.
func (v *vain) visits(f fault, visit func(ctx context.Context, at int, f fault) (struck bool, err error)) {
	v.Helper()
	harness.Loop(v, 1, func(at int) bool {
		ctx, cancel := context.WithTimeout(v.Context(), patience)
		defer cancel()
		struck, err := visit(ctx, at, f)
		if err != nil {
			v.Fatalf("%s at statement %d: %v. %s", f.name, at, err, rerun(v))
		}
		if struck {
			v.after[f.name]++
		}
		return struck
	})
}

// inFlight asks while another process is in the handler of the same operation. That one
// ends when the client was told, or, if that is the fault, at the N-th statement.
func (v *vain) inFlight(ctx context.Context, at int, f fault) (struck bool, err error) {
	op := operation(once.NewKey())
	end := v.hold(ctx, op)
	endsEarly := f.name == "the holder ends"
	if endsEarly {
		f.meddle = func() { _ = end() }
	}
	op.Attempt.Number = 1
	c := &client{s: v.s.Another(), name: "client", op: op, like: work{saw: v.saw}}
	v.line.arm(at, f)
	began := time.Now()
	_, told := c.ask(ctx)
	took := time.Since(began)
	struck = v.line.struck()
	v.note(told)
	if err := end(); err != nil {
		return struck, fmt.Errorf("the holder: %w", err)
	}
	allowed := []once.Code{once.CodeInFlight, once.CodeUnavailable}
	if struck {
		allowed = append(allowed, once.CodeConflict, once.CodeFailed)
	}
	switch {
	case took > v.bound:
		return struck, fmt.Errorf("the client has waited for %v", took)
	case told == nil && (!struck || !endsEarly):
		return struck, errors.New("there was an answer before the holder's")
	case told != nil && !slices.Contains(allowed, once.CodeOf(told)):
		return struck, told
	}
	c.op.Wait, c.like = patience, work{}
	return struck, v.settles(ctx, c)
}

// settles asks until there is the answer of the earlier one.
func (v *vain) settles(ctx context.Context, c *client) error {
	got, err := c.insist(ctx)
	if err != nil {
		return err
	}
	if got.Attempt != byEarlier {
		return fmt.Errorf("the answer is %+v", got)
	}
	if _, err := v.state(ctx, c.op.Key); err != nil { // the judge, too, has lost its connection
		return err
	}
	return v.g.truthful(ctx, c, got)
}

// hold returns when another process is in the handler. What it returns has it end.
func (v *vain) hold(ctx context.Context, op once.Operation) (end func() error) {
	entered, over, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		_, _, err := v.other.Do(ctx, op, work{key: op.Key, attempt: byEarlier, before: func() {
			close(entered)
			<-over
		}})
		ended <- err
	}()
	select {
	case <-entered:
	case err := <-ended:
		return func() error { return fmt.Errorf("it has not begun: %w", err) }
	}
	return sync.OnceValue(func() error {
		close(over)
		return <-ended
	})
}

// overHTTP asks for what is done as if it were the first time.
func (v *vain) overHTTP(ctx context.Context, at int, f fault) (struck bool, err error) {
	key := once.NewKey()
	first := v.other.HTTP(byEarlier, nil)
	again := v.s.Another().HTTP("client", nil)
	ask := func(handler http.Handler, attempt string) *httptest.ResponseRecorder {
		req, rec := newRequest(ctx, "http://localhost", key), httptest.NewRecorder()
		req.Header.Set("Once-Attempt", attempt)
		handler.ServeHTTP(rec, req)
		return rec
	}
	want := ask(first, "1")
	if want.Code != http.StatusCreated {
		return false, fmt.Errorf("the first time: %d %s", want.Code, want.Body)
	}
	v.line.arm(at, f)
	began := time.Now()
	got := ask(again, "1")
	struck = v.line.struck()
	if took := time.Since(began); took > v.bound {
		return struck, fmt.Errorf("the client has waited for %v", took)
	}
	v.told[fmt.Sprint("HTTP ", got.Code)]++
	for got.Code != http.StatusCreated {
		if !struck || !slices.Contains([]int{http.StatusServiceUnavailable, http.StatusConflict, http.StatusInternalServerError}, got.Code) || ctx.Err() != nil {
			return struck, fmt.Errorf("told %d %s", got.Code, got.Body)
		}
		got = ask(again, "2")
	}
	if got.Body.String() != want.Body.String() {
		return struck, fmt.Errorf("the first answer was %s, the repeated one is %s", want.Body, got.Body)
	}
	stands, err := v.state(ctx, key)
	if err == nil && stands != executed(byEarlier) {
		err = fmt.Errorf("the database has %+v", stands)
	}
	return struck, err
}
