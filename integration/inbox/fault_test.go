package inbox

import (
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store/storetest"
)

// flow is a way in which messages come.
type flow struct {
	order inbox.Order
	batch int
}

func (f flow) String() string { return fmt.Sprintf("order %d batch %d", f.order, f.batch) }

var flows = []flow{{inbox.AnyOrder, 1}, {inbox.AnyOrder, 20}, {inbox.InOrder, 1}, {inbox.InOrder, 20}, {inbox.LatestVersion, 1}, {inbox.LatestVersion, 4}}

// everyPoint runs a scenario with the N-th point failing, N = first, first + step, ... until no point is left: messages are
// delivered, two become dead letters, and are redriven after the fix.
func everyPoint[TX any](t *testing.T, g *fixture[TX], f flow, first, step int, engineOn func(n int) (e *once.Engine[TX], hit func() string)) (struck int) {
	t.Helper()
	for n := first; !t.Failed(); n += step {
		g.exec(t, "delete from effect")
		e, hit := engineOn(n)
		consumer := fmt.Sprint("consumer ", f.order, f.batch, n)
		in, _ := g.inboxOn(e, inbox.Config{Consumer: consumer, Order: f.order, Policy: soon(2)})
		messages, broken := scenario(f.order)
		fixed := false
		fn := g.brokenUntil(broken, &fixed)
		if err := deliver(t.Context(), &broker{unacked: messages, batch: f.batch}, in, fn); err != nil {
			t.Fatalf("%s, point %d: %v", f, n, err)
		}
		settled := func() bool {
			return g.count(t, `select count(*) from once_inbox_parked k join once_inbox_position p on p.consumer = k.consumer and p.source = k.source and p.topic = k.topic and p.KEY = k.KEY
 where k.consumer = ? and not p.dead`, consumer) == 0
		}
		run(t, in, fn, settled)
		g.wantApplied(t, fmt.Sprintf("%s, point %d, before the fix", f, n), slices.DeleteFunc(expected(f.order), func(id string) bool {
			return slices.Contains(broken, id) || f.order == inbox.InOrder && id == "a-4"
		}), f.order)
		fixed = true
		g.exec(t, "update once_deadletter set redrive_at = NOW where consumer = ?", consumer)
		run(t, in, fn, func() bool {
			return g.count(t, "select count(*) from once_deadletter where consumer = ? and state = 'dead'", consumer) == 0 && settled()
		})
		name := hit()
		g.wantApplied(t, fmt.Sprintf("%s, point %d %s", f, n, name), expected(f.order), f.order)
		if f.order == inbox.InOrder {
			g.exec(t, "delete from effect where k = ''")
			g.exec(t, "delete from effect where k = 'b'")
			g.wantOnce(t, []string{"a"}, 4)
		}
		if n := g.parked(t); n != 0 {
			t.Errorf("%d parked", n)
		}
		if name == "" {
			break
		}
		struck++
	}
	return struck
}

// wantApplied is wantBooked for a scenario: where only the latest version counts, an earlier one that was delivered again came too late.
func (g *fixture[TX]) wantApplied(t *testing.T, says string, want []string, order inbox.Order) {
	t.Helper()
	got := g.booked(t)
	if order == inbox.LatestVersion {
		for _, early := range []string{"a-1", "a-2"} {
			if !slices.Contains(got, early) {
				want = slices.DeleteFunc(want, func(id string) bool { return id == early })
			}
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: applied were %q, want %q", says, got, want)
	}
}

// TestEveryPointFails: the N-th call of the database fails, or its answer is lost, N = 1, 2, ... until a run survives: every message is
// applied once, and in order.
func TestEveryPointFails(t *testing.T) {
	testenv.Prove(t)
	on(t, testEveryPointFails[pgx.Tx], testEveryPointFails[*sql.Tx])
}

func testEveryPointFails[TX any](t *testing.T, g *fixture[TX]) {
	everyFlow(t, g, 80, func(n int) (*once.Engine[TX], func() string) {
		var mu sync.Mutex
		passed, hit := 0, ""
		s := &pointStore[TX]{Store: g.store, at: func(name string) error {
			mu.Lock()
			defer mu.Unlock()
			if passed++; passed == n {
				hit = name
				return errInjected
			}
			return nil
		}}
		return once.New(s, once.Config{Observer: once.Discard}), func() string { mu.Lock(); defer mu.Unlock(); return hit }
	})
}

// everyFlow runs everyPoint for each flow; make prove runs a part of them, and visits a part of their points. At least this many
// points must fail in each.
func everyFlow[TX any](t *testing.T, g *fixture[TX], least int, engineOn func(n int) (e *once.Engine[TX], hit func() string)) {
	t.Helper()
	for _, f := range flows {
		t.Run(f.String(), func(t *testing.T) {
			first, step := testenv.Stride(t, 12)
			if g.name != "SQLite" { // the fastest
				testenv.Sample(t, 4)
			}
			struck := everyPoint(t, g, f, first, step, engineOn)
			if t.Logf("%d points", struck); struck < max(1, least/step-1) {
				t.Errorf("vacuous: %d points", struck)
			}
		})
	}
}

// TestEveryFaultOfAStore: as TestEveryPointFails, with what storetest knows. A COMMIT may be applied after its answer was lost.
func TestEveryFaultOfAStore(t *testing.T) {
	testenv.Prove(t)
	on(t, testEveryFaultOfAStore[pgx.Tx], testEveryFaultOfAStore[*sql.Tx])
}

func testEveryFaultOfAStore[TX any](t *testing.T, g *fixture[TX]) {
	everyFlow(t, g, 10, func(n int) (*once.Engine[TX], func() string) {
		faults := storetest.NewFaults[TX](g.store)
		faults.Arm(storetest.Plan{Nth: []int{n}})
		var hits []string
		return once.New[TX](faults, once.Config{Observer: once.Discard}), func() string {
			for _, h := range faults.Heal() {
				hits = append(hits, string(h))
			}
			return strings.Join(hits, ", ")
		}
	})
}
