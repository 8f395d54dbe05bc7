package storetest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once/store"
)

// fence of the records of the truth table.
const fence = 3

// standing is what an operation can be when a Swap meets it.
type standing struct {
	name    string
	rec     store.Record // as it was written
	expires bool         // before the Swap
	lapses  bool         // before the Swap
	matched []store.Expect
}

var standings = []standing{
	{name: "absent", matched: []store.Expect{{}}},
	{name: "expired", rec: store.Record{State: store.StateDone, Fence: fence}, expires: true, matched: []store.Expect{{}}},
	{name: "running", rec: store.Record{State: store.StateRunning, Fence: fence}, matched: []store.Expect{{Fence: fence}}},
	{name: "lapsed", rec: store.Record{State: store.StateRunning, Fence: fence}, lapses: true, matched: []store.Expect{{Fence: fence}, {Fence: fence, LeaseExpired: true}}},
	{name: "lapsed while calling", rec: store.Record{State: store.StateRunning, Fence: fence, CallStarted: true}, lapses: true, matched: []store.Expect{{Fence: fence}, {Fence: fence, LeaseExpired: true}}},
	{name: "unknown", rec: store.Record{State: store.StateUnknown, Fence: fence}, matched: []store.Expect{{Fence: fence}}},
	{name: "lapsed, then unknown", rec: store.Record{State: store.StateUnknown, Fence: fence}, lapses: true, matched: []store.Expect{{Fence: fence}}},
	{name: "done", rec: store.Record{State: store.StateDone, Fence: fence}},
}

// A LeaseExpired expectation of an absent operation means nothing, and is not in the table.
var expects = []store.Expect{{}, {Fence: fence}, {Fence: fence, LeaseExpired: true}, {Fence: fence - 1}, {Fence: fence - 1, LeaseExpired: true}, {Fence: fence + 1}}

var nexts = []struct {
	name string
	rec  store.Record
}{
	{"release", store.Record{State: store.StateAbsent}},
	{"hold", store.Record{State: store.StateRunning, Fence: fence, RecoveryPoint: "p", Data: []byte("d")}},
	{"take over", store.Record{State: store.StateRunning, Fence: fence + 1}},
	{"finish", store.Record{State: store.StateDone, Fence: fence, Result: store.Result{Status: 200, Body: []byte("b")}}},
	{"mark unknown", store.Record{State: store.StateUnknown, Fence: fence, CallStarted: true}},
}

// testTruthTable proves what every Swap does to every operation.
func testTruthTable[TX any](t *testing.T, u *suite[TX]) {
	type cell struct {
		name    string
		st      standing
		c       store.Change
		applies bool
	}
	var table []cell
	for _, st := range standings {
		for _, ex := range expects {
			for _, n := range nexts {
				if ex.Fence == 0 && n.rec.State == store.StateAbsent {
					continue // nothing to release
				}
				c := cell{name: fmt.Sprintf("%s, expecting %+v, to %s", st.name, ex, n.name), st: st, c: change(newID(), ex, n.rec)}
				for _, m := range st.matched {
					c.applies = c.applies || m.Fence == ex.Fence && m.LeaseExpired == ex.LeaseExpired
				}
				c.c.Writes = []store.Statement{u.Statement(c.c.ID.Key)}
				table = append(table, c)
			}
		}
	}
	set := func(early bool) {
		for _, c := range table {
			if c.st.rec.State == store.StateAbsent || early != (c.st.expires || c.st.lapses) {
				continue
			}
			set := change(c.c.ID, store.Expect{}, c.st.rec)
			if c.st.expires {
				set.Retain = time.Minute
			}
			if c.st.lapses {
				set.Next.State, set.Lease = store.StateRunning, time.Minute
			}
			u.swap(t, set)
			if set.Next.State != c.st.rec.State {
				u.swap(t, change(c.c.ID, store.Expect{Fence: fence}, c.st.rec))
			}
		}
	}
	set(true)
	u.Advance(t, u.s, 2*time.Minute)
	set(false)
	for _, c := range table {
		u.cell(t, c.name, c.st, c.c, c.applies)
	}
}

// cell applies one Change of the truth table.
func (u *suite[TX]) cell(t *testing.T, name string, st standing, c store.Change, applies bool) {
	before := u.read(t, c.ID)
	if before.LeaseExpired != (before.State == store.StateRunning && st.lapses) {
		t.Errorf("%s: before, its lease is over: %t", name, before.LeaseExpired)
	}
	rec, err := u.s.Swap(bounded(t), c)
	after := u.read(t, c.ID)
	switch {
	case applies && err != nil:
		t.Errorf("%s: %v", name, err)
	case applies:
		want := c.Next
		if d := diff(want, after); d != "" {
			t.Errorf("%s: then %s", name, d)
		}
		if after.LeaseExpired {
			t.Errorf("%s: then its lease is over", name)
		}
	case store.KindOf(err) != store.KindTaken || err == nil:
		t.Errorf("%s: error %v, want Taken", name, err)
	default:
		if d := diff(before, rec); d != "" || before.LeaseExpired != rec.LeaseExpired {
			t.Errorf("%s: in the way is %+v, but the record is %+v", name, rec, before)
		}
		if d := diff(before, after); d != "" {
			t.Errorf("%s: refused, but then %s", name, d)
		}
	}
	want := 0
	if applies {
		want = 1
	}
	if n := u.Effects(t, u.s, c.ID.Key); n != want {
		t.Errorf("%s: %d effects of its Writes, want %d", name, n, want)
	}
}

func testSwap[TX any](t *testing.T, u *suite[TX]) {
	t.Run("Writes", func(t *testing.T) { testWrites(t, u) })
	t.Run("Claimed", func(t *testing.T) {
		for i, n := range nexts[1:] {
			if u.OneWriter && i > 0 {
				break // each one takes as long as the store waits for the writer
			}
			id := newID()
			txn := u.begin(t, id)
			ctx := bounded(t)
			if u.OneWriter {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, 300*time.Millisecond)
				defer cancel()
			}
			c := change(id, store.Expect{}, n.rec)
			rec, err := u.peer.Swap(ctx, c)
			switch {
			case u.OneWriter && store.KindOf(err) == store.KindUnavailable:
			case err == nil || store.KindOf(err) != store.KindTaken || rec.State != store.StateRunning:
				t.Errorf("to %s while a transaction holds the claim: record %+v, error %v, want Taken and Running", n.name, rec, err)
			}
			if err := txn.Rollback(bounded(t)); err != nil {
				t.Error(err)
			}
			u.wantState(t, id, store.StateAbsent)
			u.swap(t, c)
		}
	})
	t.Run("OneWins", func(t *testing.T) { // a claim by Swap, and then a takeover, under contention
		for range 5 {
			id := newID()
			claim := change(id, store.Expect{}, store.Record{State: store.StateRunning, Fence: 1})
			u.oneWins(t, claim, store.StateRunning)
			over := change(id, store.Expect{Fence: 1}, store.Record{State: store.StateRunning, Fence: 2})
			u.oneWins(t, over, store.StateRunning)
			finish := change(id, store.Expect{Fence: 2}, store.Record{State: store.StateDone, Fence: 2})
			u.oneWins(t, finish, store.StateDone)
			u.wantEffects(t, id.Key, 3)
		}
	})
}

// oneWins sends the same change from many goroutines.
func (u *suite[TX]) oneWins(t *testing.T, c store.Change, then store.State) {
	t.Helper()
	c.Writes = []store.Statement{u.Statement(c.ID.Key)}
	ctx := bounded(t)
	var wg sync.WaitGroup
	errs := make([]error, 12)
	recs := make([]store.Record, len(errs))
	for i := range errs {
		wg.Go(func() { recs[i], errs[i] = []store.Store[TX]{u.s, u.peer}[i%2].Swap(ctx, c) })
	}
	wg.Wait()
	won := 0
	for i, err := range errs {
		switch {
		case err == nil:
			won++
		case store.KindOf(err) != store.KindTaken || recs[i].State != then:
			t.Errorf("Swap to %s: record %+v, error %v, want Taken and %s", c.Next.State, recs[i], err, then)
		}
	}
	if won != 1 {
		t.Errorf("Swap to %s: applied by %d of %d", c.Next.State, won, len(errs))
	}
}

// testWrites proves that statements commit with their change or not at all.
func testWrites[TX any](t *testing.T, u *suite[TX]) {
	expecting := func(key string, rows int) store.Statement {
		s := u.Statement(key)
		s.Rows = rows
		return s
	}
	for _, by := range []string{"Swap", "Commit", "Swap without an operation", "Commit without an operation"} {
		for _, tt := range []struct {
			name    string
			rows    []int // of each statement
			effects int
		}{
			{"none", nil, 0}, {"one", []int{0}, 1}, {"one, counted", []int{1}, 1}, {"three", []int{1, 0, 1}, 3},
			{"wrong count", []int{2}, 0}, {"wrong count at the end", []int{0, 1, 2}, 0}, {"wrong count at the start", []int{2, 1}, 0},
		} {
			t.Run(by+"/"+tt.name, func(t *testing.T) {
				id := newID()
				c := done(id, "r")
				for _, n := range tt.rows {
					c.Writes = append(c.Writes, expecting(id.Key, n))
				}
				recorded := by == "Swap" || by == "Commit"
				if !recorded {
					c = store.Change{Writes: c.Writes}
				}
				var err error
				if by == "Swap" || by == "Swap without an operation" {
					_, err = u.s.Swap(bounded(t), c)
				} else {
					err = u.begin(t, c.ID).Commit(bounded(t), c)
				}
				want := store.StateAbsent
				if fails := tt.effects == 0 && len(tt.rows) > 0; fails {
					wantKind(t, err, store.KindOther)
				} else if err != nil {
					t.Error(err)
				} else if recorded {
					want = store.StateDone
				}
				u.wantState(t, id, want)
				u.wantEffects(t, id.Key, tt.effects)
			})
		}
	}
}
