package storetest

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once/store"
)

// fence is the fence of the records of the truth table.
const fence = 3

// Nonces of the truth table.
var (
	storedNonce = []byte("the stored claim")
	nextNonce   = []byte("the next claim 0")
	otherNonce  = []byte("some other claim")
)

// standing is a state in which a Change may find an operation.
type standing struct {
	name    string
	rec     store.Record // the record as it was written
	expires bool         // the retention ends before the Change
	lapses  bool         // the lease ends before the Change
}

var standings = []standing{
	{name: "absent"},
	{name: "expired", rec: stored(store.StateDone), expires: true},
	{name: "running", rec: stored(store.StateRunning)},
	{name: "lapsed", rec: stored(store.StateRunning), lapses: true},
	{name: "lapsed while calling", rec: calling(stored(store.StateRunning)), lapses: true},
	{name: "unknown", rec: stored(store.StateUnknown)},
	{name: "lapsed, then unknown", rec: stored(store.StateUnknown), lapses: true},
	{name: "waiting", rec: stored(store.StateWaiting)},
	{name: "lapsed, then waiting", rec: calling(stored(store.StateWaiting)), lapses: true},
	{name: "done", rec: stored(store.StateDone)},
}

// stored returns a record that has all fields which KeepRequest leaves unchanged.
func stored(state store.State) store.Record {
	return store.Record{
		State: state, Fence: fence, Nonce: storedNonce,
		Fingerprint: []byte("stored fingerprint"), Request: []byte("stored request"), Trace: "00-stored", Name: "stored name", Data: []byte("stored data"),
	}
}

func calling(rec store.Record) store.Record {
	rec.CallStarted = true
	return rec
}

// matched reports whether st meets the expectation ex. For an absent operation, LeaseExpired and Nonce mean nothing, so the
// table does not have them.
func (st standing) matched(ex store.Expect) bool {
	switch {
	case st.rec.State == store.StateAbsent || st.expires:
		return ex.Fence == 0
	case st.rec.State == store.StateDone, ex.Fence != fence, ex.Nonce != nil && !bytes.Equal(ex.Nonce, storedNonce):
		return false
	}
	return !ex.LeaseExpired || st.lapses && st.rec.State == store.StateRunning
}

var expects = []store.Expect{
	{}, {Fence: fence}, {Fence: fence, LeaseExpired: true},
	{Fence: fence - 1}, {Fence: fence - 1, LeaseExpired: true}, {Fence: fence + 1},
	{Fence: fence, Nonce: storedNonce}, {Fence: fence, Nonce: storedNonce, LeaseExpired: true},
	{Fence: fence, Nonce: otherNonce}, {Fence: fence, Nonce: otherNonce, LeaseExpired: true}, {Fence: fence - 1, Nonce: storedNonce},
}

var nexts = []struct {
	name string
	rec  store.Record
}{
	{"release", store.Record{State: store.StateAbsent}},
	{"hold", store.Record{State: store.StateRunning, Fence: fence, RecoveryPoint: "p", Data: []byte("d")}},
	{"take over", store.Record{State: store.StateRunning, Fence: fence + 1, Fingerprint: []byte("next fingerprint")}},
	{"finish", store.Record{State: store.StateDone, Fence: fence, Trace: "00-next", Name: "next name", Result: store.Result{Status: 200, Body: []byte("b")}}},
	{"wait", store.Record{State: store.StateWaiting, Fence: fence + 1, RecoveryPoint: "p", Data: []byte("d")}},
	{"mark unknown", store.Record{State: store.StateUnknown, Fence: fence, CallStarted: true, Request: []byte("next request")}},
}

// testTruthTable proves the result of every Change on every operation, for each way to apply a Change. Swap goes through all
// combinations without a nonce. An expectation with a nonce, and every other way, is tried with one next record. A way
// that is rolled back applies the same Change and undoes it.
func testTruthTable(t *testing.T, o *operations) {
	type cell struct {
		name string
		way  way
		st   standing
		c    store.Change
	}
	var table []cell
	for w, by := range o.ways {
		for _, st := range standings {
			for e, ex := range expects {
				for n, next := range nexts {
					if (w > 0 || ex.Nonce != nil) && (e+w)%len(nexts) != n {
						continue
					}
					if by.undone && !st.matched(ex) {
						continue
					}
					if ex.Fence == 0 && next.rec.State == store.StateAbsent {
						continue // there is nothing to release
					}
					c := o.withEffect(change(newID(), ex, next.rec))
					if next.rec.State != store.StateAbsent {
						c.Next.Nonce = nextNonce
					}
					c.KeepRequest = ex.Fence != 0 && (e+n)%2 == 0
					name := fmt.Sprintf("%s: %s, expecting fence %d, nonce %q, lease over %t, to %s, keep %t", by.name, st.name, ex.Fence, ex.Nonce, ex.LeaseExpired, next.name, c.KeepRequest)
					table = append(table, cell{name, by, st, c})
				}
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
			o.swap(t, set)
			if set.Next.State != c.st.rec.State {
				o.swap(t, change(c.c.ID, store.Expect{Fence: fence}, c.st.rec))
			}
		}
	}
	set(true)
	o.advance(t, 2*time.Minute)
	set(false)
	for _, c := range table {
		o.cell(t, c.name, c.way, c.st, c.c)
	}
}

// cell applies one Change of the truth table.
func (o *operations) cell(t *testing.T, name string, by way, st standing, c store.Change) {
	before, applies := o.read(t, c.ID), st.matched(c.Expect)
	if before.LeaseExpired != (before.State == store.StateRunning && st.lapses) {
		t.Errorf("%s: LeaseExpired of the record before the Swap is %t", name, before.LeaseExpired)
	}
	rec, err := by.apply(t, c)
	after := o.read(t, c.ID)
	switch {
	case applies && err != nil:
		t.Errorf("%s: %v", name, err)
	case applies && !by.undone:
		want := c.Next
		if c.KeepRequest && want.State != store.StateAbsent {
			want.Fingerprint, want.Request, want.Trace, want.Name = before.Fingerprint, before.Request, before.Trace, before.Name
		}
		if d := diff(want, after); d != "" {
			t.Errorf("%s: then %s", name, d)
		}
		if after.LeaseExpired {
			t.Errorf("%s: LeaseExpired of the record after the Swap is true", name)
		}
		if before.State != store.StateAbsent && after.State != store.StateAbsent && !after.Since.Equal(before.Since) {
			t.Errorf("%s: Since was %v and is %v", name, before.Since, after.Since)
		}
	case !applies && (err == nil || store.KindOf(err) != store.KindTaken):
		t.Errorf("%s: the error is %v, want an error of kind Taken", name, err)
	default:
		if d := diff(before, rec); !applies && by.tells && (d != "" || before.LeaseExpired != rec.LeaseExpired) {
			t.Errorf("%s: Swap has returned the record %+v, but the stored record is %+v", name, rec, before)
		}
		if d := diff(before, after); d != "" {
			t.Errorf("%s: the Swap was refused, but the record has changed: %s", name, d)
		}
	}
	o.wantEffectsOf(t, name, c, applies && !by.undone)
}

// wantEffectsOf wants the effect of c if c was applied, and none otherwise.
func (o *operations) wantEffectsOf(t *testing.T, name string, c store.Change, applied bool) {
	t.Helper()
	if o.effects == nil {
		return
	}
	want := 0
	if applied {
		want = len(c.Writes)
	}
	if n := o.effects(t, c.ID.Key); n != want {
		t.Errorf("%s: Change.Writes had %d effects, want %d", name, n, want)
	}
}

func testSwap(t *testing.T, o *operations) {
	t.Run("Writes", func(t *testing.T) { testWrites(t, o) })
	t.Run("Reclaimed", func(t *testing.T) { testReclaimed(t, o) })
	t.Run("StaleAfter", func(t *testing.T) { testStaleAfter(t, o) })
	t.Run("OneWins", func(t *testing.T) { // a claim, a takeover and a finish, under contention
		for _, by := range o.ways {
			rounds := 2
			if by.tells {
				rounds = 5
			} else if by.undone {
				continue
			}
			for range rounds {
				id := newID()
				claim := change(id, store.Expect{}, store.Record{State: store.StateRunning, Fence: 1})
				o.oneWins(t, by, claim, store.StateRunning)
				over := change(id, store.Expect{Fence: 1}, store.Record{State: store.StateRunning, Fence: 2})
				o.oneWins(t, by, over, store.StateRunning)
				finish := change(id, store.Expect{Fence: 2}, store.Record{State: store.StateDone, Fence: 2})
				o.oneWins(t, by, finish, store.StateDone)
				o.wantEffects(t, id.Key, 3)
			}
		}
	})
}

// testClaimed runs testSwap, and tries Swap while another transaction has claimed the operation.
func testClaimed[TX any](t *testing.T, u *suite[TX]) {
	testSwap(t, u.operations)
	t.Run("Claimed", func(t *testing.T) {
		for i, n := range nexts[1:] {
			if u.OneWriter && i > 0 {
				break // each try takes as long as the store waits for the writer
			}
			id := newID()
			free := u.claims(t, id)
			ctx := bounded(t)
			if u.OneWriter {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, 300*time.Millisecond)
				defer cancel()
			}
			c := change(id, store.Expect{}, n.rec)
			rec, err := u.peer.Swap(ctx, c)
			if u.ClaimsByCommit { // an open transaction of such a store has claimed nothing
				free()
				if err != nil {
					t.Errorf("the Swap to %s, while a transaction that claims by its commit is open, has returned %v", n.name, err)
				}
				u.wantState(t, id, n.rec.State)
				continue
			}
			switch {
			case u.OneWriter && hasWaited(err):
			case err == nil || store.KindOf(err) != store.KindTaken || rec.State != store.StateRunning:
				t.Errorf("the Swap to %s, while a transaction holds the claim, has returned the record %+v, error %v, want an error of kind Taken and a running record", n.name, rec, err)
			}
			free()
			u.wantState(t, id, store.StateAbsent)
			u.swap(t, c)
		}
	})
}

// oneWins applies the same change from many goroutines. Exactly one of them must succeed.
func (o *operations) oneWins(t *testing.T, by way, c store.Change, then store.State) {
	t.Helper()
	c = o.withEffect(c)
	var wg sync.WaitGroup
	errs := make([]error, 12)
	recs := make([]store.Record, len(errs))
	for i := range errs {
		wg.Go(func() {
			errs[i] = &store.Error{Kind: store.KindRetry}
			for range 20 {
				if store.KindOf(errs[i]) != store.KindRetry || errs[i] == nil {
					break
				}
				if by.tells && i%2 == 1 {
					recs[i], errs[i] = o.peer.Swap(bounded(t), c)
				} else {
					recs[i], errs[i] = by.apply(t, c)
				}
			}
		})
	}
	wg.Wait()
	won := 0
	for i, err := range errs {
		switch {
		case err == nil:
			won++
		case store.KindOf(err) != store.KindTaken || by.tells && recs[i].State != then:
			t.Errorf("%s to %s: record %+v, error %v, want Taken and %s", by.name, c.Next.State, recs[i], err, then)
		}
	}
	if won != 1 {
		t.Errorf("%s to %s: applied by %d of %d", by.name, c.Next.State, won, len(errs))
	}
	o.wantState(t, c.ID, then)
}

// testReclaimed proves that the old holder of an operation which was released meanwhile does not match the next claim, although
// that has the same fence.
func testReclaimed(t *testing.T, o *operations) {
	for _, by := range o.ways {
		id := newID()
		running := func(nonce []byte) store.Record {
			return store.Record{State: store.StateRunning, Fence: 1, Nonce: nonce}
		}
		old := store.Expect{Fence: 1, Nonce: storedNonce}
		o.swap(t, change(id, store.Expect{}, running(storedNonce)))
		o.swap(t, store.Change{ID: id, Expect: old})
		o.swap(t, change(id, store.Expect{}, running(nextNonce)))
		for _, n := range nexts {
			_, err := by.apply(t, change(id, old, n.rec))
			if err == nil || store.KindOf(err) != store.KindTaken {
				t.Errorf("%s to %s by a holder whose operation was released and claimed again: %v, want Taken", by.name, n.name, err)
			}
		}
		if !o.oneRecord {
			c := change(newID(), store.Expect{}, running(nextNonce))
			c.Held = []store.Hold{{ID: id, Fence: 1, Nonce: storedNonce}}
			_, err := by.apply(t, c)
			wantKind(t, err, store.KindTaken)
			o.wantState(t, c.ID, store.StateAbsent)
		}
		o.same(t, by.name, id, running(nextNonce))
	}
}

// testStaleAfter proves that a Change which claims an absent operation is refused when it is too late, and that no other Change
// is refused. The times are years away, because a store's clock may differ from the clock of the test.
func testStaleAfter(t *testing.T, o *operations) {
	const far = 10 * 365 * 24 * time.Hour
	over, ahead := time.Now().Add(-far), time.Now().Add(far)
	for _, by := range o.claiming() {
		for _, next := range nexts[1:] {
			c := o.withEffect(change(newID(), store.Expect{}, next.rec))
			c.StaleAfter = over
			_, err := by.apply(t, c)
			wantKind(t, err, store.KindStale)
			o.wantState(t, c.ID, store.StateAbsent)
			o.wantEffectsOf(t, by.name+", too late", c, false)
			c.StaleAfter = ahead
			if _, err := by.apply(t, c); err != nil {
				t.Errorf("%s to %s, in time: %v", by.name, next.name, err)
			}
			if by.undone {
				continue
			}
			o.same(t, by.name, c.ID, c.Next)
			if by.claims {
				continue
			}
			again := c
			again.StaleAfter = over
			_, err = by.apply(t, again)
			wantKind(t, err, store.KindTaken) // the existing record counts, however late the Change is
		}
		if by.undone || by.claims {
			continue
		}
		c := change(newID(), store.Expect{}, store.Record{State: store.StateRunning, Fence: 1})
		o.swap(t, c)
		c.Expect, c.Next.Fence, c.StaleAfter = store.Expect{Fence: 1}, 2, over
		if _, err := by.apply(t, c); err != nil {
			t.Errorf("%s of what runs: %v", by.name, err)
		}
	}
}

// testWrites proves that statements commit with their change or not at all.
func testWrites(t *testing.T, o *operations) {
	if o.statement == nil {
		for _, c := range []store.Change{done(newID(), "r"), {}} {
			c.Writes = []store.Statement{{SQL: "insert"}}
			_, err := o.s.Swap(bounded(t), c)
			wantKind(t, err, store.KindMisused)
			o.wantState(t, c.ID, store.StateAbsent)
		}
		return
	}
	expecting := func(key string, rows int) store.Statement {
		s := o.statement(key)
		s.Rows = rows
		return s
	}
	run := func(name string, recorded bool, apply func(t *testing.T, c store.Change) error) {
		for _, tt := range []struct {
			name    string
			rows    []int // of each statement
			effects int
		}{
			{"none", nil, 0}, {"one", []int{0}, 1}, {"one, counted", []int{1}, 1}, {"three", []int{1, 0, 1}, 3},
			{"wrong count", []int{2}, 0}, {"wrong count at the end", []int{0, 1, 2}, 0}, {"wrong count at the start", []int{2, 1}, 0},
		} {
			t.Run(name+"/"+tt.name, func(t *testing.T) {
				id := newID()
				c := done(id, "r")
				for _, n := range tt.rows {
					c.Writes = append(c.Writes, expecting(id.Key, n))
				}
				if !recorded {
					c = store.Change{Writes: c.Writes}
				}
				err := apply(t, c)
				want := store.StateAbsent
				if fails := tt.effects == 0 && len(tt.rows) > 0; fails {
					wantKind(t, err, store.KindOther)
				} else if err != nil {
					t.Error(err)
				} else if recorded {
					want = store.StateDone
				}
				o.wantState(t, id, want)
				o.wantEffects(t, id.Key, tt.effects)
			})
		}
	}
	for _, by := range o.puts {
		run(by.name, true, by.apply)
	}
	for _, by := range o.ways {
		if !by.undone {
			run(by.name+" without an operation", false, func(t *testing.T, c store.Change) error {
				_, err := by.apply(t, c)
				return err
			})
		}
	}
}
