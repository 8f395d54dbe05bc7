package integration

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
)

// TestNthStatementFails has the N-th statement of an operation meet each error of its database, N = 1,
// 2, ... until an operation survives. What the caller is told is true, the same key asked
// again has one effect and one answer, and the service goes on with the pool that it has.
func TestNthStatementFails(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	testenv.Need(t, "postgresql", "mariadb", "mysql")
	for _, store := range []string{harness.Pgx, harness.Postgres, harness.MariaDB, harness.MySQL} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			g := newTestDB(t, store)
			line := newToll(t, address(t, g.DSN), wireOf(store))
			n := newNth(t, g, line, setup{dsn: line.dsn(g.DSN)})
			switch {
			case store == harness.Pgx:
				n.loops(faultsOf(store), optimisticCourses...)
			case innodb(store):
				n.loops(faultsOf(store), modeCourses...)
			default:
				n.loops(faultsOf(store))
			}
			n.report(50)
		})
	}
	t.Run(harness.SQLite, func(t *testing.T) {
		t.Parallel()
		n := newNthSQLite(t, "WAL")
		n.loops(sqliteFaults())
		n.report(60)
	})
}

func wireOf(store string) protocol {
	if innodb(store) {
		return mysqlWire{}
	}
	return postgresWire{}
}

func faultsOf(store string) []fault {
	faults := []fault{{name: "line cut before", cut: true}, {name: "line cut after", lose: true}}
	if innodb(store) {
		for _, code := range []int{1205, 1213} {
			faults = append(faults, fault{name: fmt.Sprint(code), raise: raiseInnoDB(store, code)},
				fault{name: fmt.Sprint(code, " in a packet"), inside: raiseInnoDB(store, code), undone: true})
		}
		return append(faults, fault{name: "killed in a packet", inside: "kill connection_id()"}, fault{name: "syntax error in a packet", inside: "no statement", undone: true})
	}
	for _, state := range []string{"40001", "40P01", "55P03"} {
		faults = append(faults, fault{name: state, raise: raisePostgres(state)})
	}
	return faults
}

// obstacle is where statements pass, and one of them does not.
type obstacle interface {
	arm(n int, f fault)
	struck() bool
}

// nth is the loop on one store.
type nth struct {
	*testing.T
	g     *testDB
	line  obstacle
	s     system // one for all
	met   doubts
	calm  func() // waits until what has struck is over
	start time.Time
	bound time.Duration // of what a client waits

	mu    sync.Mutex
	seen  map[string]int // errors, by code, as handlers and observers see them
	after map[string]int // points, by fault
	told  map[string]int // first answers
}

func newNth(t *testing.T, g *testDB, line obstacle, su setup) *nth {
	t.Helper()
	n := &nth{T: t, g: g, line: line, calm: func() {}, start: time.Now(), seen: map[string]int{}, after: map[string]int{}, told: map[string]int{}}
	n.bound = cmp.Or(su.engine.Settle, patience)
	su.conns, su.engine = 4, once.Config{Settle: n.bound, Observer: n}
	n.s = g.open(t, su)
	for range su.conns { // what is prepared once per connection
		if err := warm(t.Context(), n.s, plan{Key: once.NewKey(), Attempt: "warm"}); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// course is an operation in the way of a fault.
type course struct {
	flow     string
	swallows bool
	also     func(ctx context.Context, exec execer) error
	op       func(*once.Operation)
}

// loops visits all courses. In the short form the rarer ones meet every other fault.
func (n *nth) loops(faults []fault, others ...course) {
	for i, f := range faults {
		for j, c := range slices.Concat(courses, others) {
			if long() || j < 2 || i%2 == j%2 {
				n.loop(f, c, nil)
			}
		}
	}
}

var courses = []course{
	{flow: flowDo}, {flow: flowDo, swallows: true}, {flow: flowFailure}, {flow: flowReplay},
	{flow: flowDo, op: first}, {flow: flowFailure, op: first}, {flow: flowDo, swallows: true, op: first},
}

// optimisticCourses are those of a store that sends the look-up with the handler's first statement.
var optimisticCourses = []course{
	{flow: flowDo, op: optimistic}, {flow: flowReplay, op: optimistic}, {flow: flowDo, swallows: true, op: optimistic}, {flow: flowFailure, op: optimistic},
}

// optimistic puts off the look-up as well where a store can.
func optimistic(op *once.Operation) { op.Optimistic = true }

// modeCourses have a handler that leaves its session with another sql_mode, in which the packets of once follow.
var modeCourses = []course{{flow: flowDo, op: first, also: quotesOtherwise}, {flow: flowFailure, op: first, also: quotesOtherwise}}

func quotesOtherwise(ctx context.Context, exec execer) error {
	return exec(ctx, "set session sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'")
}

// first puts off the claim where a store can.
func first(op *once.Operation) { op.Attempt.Number = 1 }

// loop visits every point. If prepare is set, it makes the fault of each, and if that has
// struck over is called when the client has been told.
func (n *nth) loop(f fault, c course, prepare func(ctx context.Context) (f fault, over func())) {
	n.Helper()
	harness.Loop(n, 1, func(at int) bool {
		ctx, cancel := context.WithTimeout(n.Context(), patience)
		defer cancel()
		over := func() {}
		if prepare != nil {
			f, over = prepare(ctx)
		}
		struck, err := n.strike(ctx, at, f, c, over)
		if err != nil {
			n.Fatalf("%s at statement %d of %s (errors swallowed: %v): %v. %s", f.name, at, c.flow, c.swallows, err, rerun(n))
		}
		if struck {
			n.after[f.name]++
		}
		return struck
	})
}

func (n *nth) strike(ctx context.Context, at int, f fault, c course, over func()) (struck bool, err error) {
	op := operation(once.NewKey())
	op.Wait = patience // until the server has noticed that a line is cut
	if c.op != nil {
		c.op(&op)
	}
	before, flow := state{}, c.flow
	if c.flow == flowReplay {
		flow, before = flowDo, executed(byEarlier)
		if _, _, err := n.s.Do(ctx, op, work{key: op.Key, attempt: byEarlier}); err != nil {
			return false, err
		}
	}
	s := n.s.Another() // which has seen nothing
	cl := &client{s: s, name: "client", flow: flow, op: op, like: work{swallows: c.swallows, also: c.also, saw: n.saw}}
	n.line.arm(at, f)
	began := time.Now()
	got, told := cl.ask(ctx)
	took := time.Since(began)
	if struck = n.line.struck(); struck {
		over()
	}
	n.note(told)
	stands, err := n.state(ctx, op.Key)
	if err != nil {
		return struck, err
	}
	switch effect, code := once.EffectOf(told), once.CodeOf(told); {
	case took > n.bound:
		return struck, fmt.Errorf("the client has waited for %v", took)
	case told == nil:
	case !struck:
		return false, fmt.Errorf("nothing has struck, and yet: %w", told)
	case effect == once.EffectNotApplied && stands != before:
		return struck, fmt.Errorf("the database has %+v, but: %w", stands, told)
	case !slices.Contains([]once.Code{once.CodeUnavailable, once.CodeConflict, once.CodeFailed, once.CodeAborted}, code), code == once.CodeAborted && !c.swallows:
		return struck, fmt.Errorf("of a fault that passes, the client is told: %w", told)
	}
	if told != nil {
		cl.like = work{}
		if got, err = cl.insist(ctx); err != nil {
			return struck, err
		}
	}
	n.calm()
	if _, err := n.state(ctx, op.Key); err != nil { // the judge, too, has lost its connection
		return struck, err
	}
	return struck, n.g.truthful(ctx, cl, got)
}

// state asks until a server answers.
func (n *nth) state(ctx context.Context, key string) (state, error) {
	for {
		s, err := n.g.state(ctx, key)
		if err == nil || ctx.Err() != nil {
			return s, err
		}
	}
}
