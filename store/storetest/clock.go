package storetest

import (
	"testing"
	"time"

	"github.com/oncelib/once/store"
)

// testClock proves what depends on time. Its cases follow each other: time
// advances for all of them.
func testClock[TX any](t *testing.T, u *suite[TX]) {
	t.Run("TruthTable", func(t *testing.T) { testTruthTable(t, u) })
	t.Run("Lifecycle", func(t *testing.T) { testLifecycle(t, u) })
	t.Run("Retain", func(t *testing.T) {
		for _, by := range []string{"Commit", "Swap"} {
			id := newID()
			c := done(id, "first")
			c.Retain = 10 * time.Minute
			if by == "Commit" {
				u.execute(t, c)
			} else {
				c.Writes = []store.Statement{u.Statement(id.Key)}
				u.swap(t, c)
			}
			u.Advance(t, u.s, 9*time.Minute)
			u.wantState(t, id, store.StateDone)
			u.Advance(t, u.s, 2*time.Minute)
			expired := store.Record{Nonce: c.Next.Nonce}
			if d := diff(expired, u.read(t, id)); d != "" {
				t.Errorf("an expired record: Read: %s", d)
			}
			txn, rec, err := u.s.Begin(bounded(t), store.BeginOptions{ID: id})
			if err != nil || txn == nil {
				t.Fatalf("Begin on an expired record: %+v, error %v", rec, err)
			}
			if d := diff(expired, rec); d != "" {
				t.Errorf("an expired record: Begin: %s", d)
			}
			if err := txn.Rollback(bounded(t)); err != nil { // it is left alone
				t.Error(err)
			}
			if d := diff(expired, u.read(t, id)); d != "" {
				t.Errorf("an expired record, left alone: %s", d)
			}
			c = done(id, "second")
			u.execute(t, c)
			u.same(t, "the record that has replaced an expired one", id, c.Next)
			u.wantEffects(t, id.Key, 2)
		}
	})
	t.Run("Since", func(t *testing.T) {
		began := time.Now()
		first, second := newID(), newID()
		c := done(first, "r")
		c.Retain = 2 * time.Hour
		u.execute(t, c)
		u.Advance(t, u.s, time.Hour)
		u.swap(t, done(second, "r"))
		apart := u.read(t, second).Since.Sub(u.read(t, first).Since)
		if most := time.Hour + time.Since(began) + time.Second; apart < time.Hour-time.Second || apart > most {
			t.Errorf("two records made an hour apart: Since says %v", apart)
		}
	})
}

// testLifecycle follows one leased operation through all that can happen to it.
func testLifecycle[TX any](t *testing.T, u *suite[TX]) {
	id := newID()
	step := func(expect store.Expect, rec store.Record) store.Change {
		return store.Change{ID: id, Expect: expect, Next: claimed(rec), Lease: time.Minute, Retain: time.Hour}
	}
	refused := func(what string, c store.Change, in store.Record) {
		t.Helper()
		rec, err := u.peer.Swap(bounded(t), c)
		wantKind(t, err, store.KindTaken)
		if d := diff(in, rec); d != "" {
			t.Errorf("%s: in the way is %+v: %s", what, rec, d)
		}
	}
	lapsed := func(want bool) {
		t.Helper()
		if rec := u.read(t, id); rec.State != store.StateRunning || rec.LeaseExpired != want {
			t.Errorf("record %+v, want running, lapsed %t", rec, want)
		}
	}
	held := store.Record{State: store.StateRunning, Fence: 1, Nonce: []byte("one's claim 0123")}
	mine := store.Expect{Fence: 1}
	u.swap(t, step(store.Expect{}, held)) // claim
	lapsed(false)
	refused("a second claim", step(store.Expect{}, held), held)
	u.Advance(t, u.s, 50*time.Second)
	u.swap(t, step(mine, held)) // heartbeat
	u.Advance(t, u.s, 50*time.Second)
	lapsed(false)
	held.RecoveryPoint, held.Data, held.CallStarted = "charged", []byte("ch_1"), true
	u.swap(t, step(mine, held)) // checkpoint
	theirs := store.Record{State: store.StateRunning, Fence: 2, RecoveryPoint: held.RecoveryPoint, Data: held.Data, Nonce: []byte("two's claim 0123")}
	takeover := step(store.Expect{Fence: 1, LeaseExpired: true}, theirs)
	refused("a takeover too early", takeover, held)
	u.Advance(t, u.s, 61*time.Second)
	lapsed(true)
	if txn, rec, err := u.peer.Begin(bounded(t), store.BeginOptions{ID: id}); txn != nil || err != nil || !rec.LeaseExpired || diff(held, rec) != "" {
		t.Errorf("Begin on a lapsed record: %v, %+v, %v", txn, rec, err)
	}
	u.swap(t, takeover)
	lapsed(false)
	refused("the heartbeat of the old holder", step(mine, held), theirs)
	refused("the finish of the old holder", step(mine, store.Record{State: store.StateDone, Fence: 1}), theirs)
	refused("the release of the old holder", step(mine, store.Record{}), theirs)
	unknown := claimed(store.Record{State: store.StateUnknown, Fence: 2, RecoveryPoint: "charged", CallStarted: true})
	u.swap(t, step(store.Expect{Fence: 2}, unknown))
	u.Advance(t, u.s, 1000*time.Hour)
	u.same(t, "unknown, much later", id, unknown)
	refused("the takeover of an unknown record", step(store.Expect{Fence: 2, LeaseExpired: true}, theirs), unknown)
	final := claimed(store.Record{State: store.StateDone, Fence: 2, Result: store.Result{Status: 201, Body: []byte("resolved")}})
	u.swap(t, step(store.Expect{Fence: 2}, final)) // resolve
	for _, n := range nexts {
		refused("to "+n.name+" when done", step(store.Expect{Fence: 2}, n.rec), final)
	}
	u.Advance(t, u.s, 59*time.Minute)
	u.same(t, "done", id, final)
	u.Advance(t, u.s, 2*time.Minute)
	u.wantState(t, id, store.StateAbsent)
	u.swap(t, step(store.Expect{}, held))
	u.Advance(t, u.s, 1000*time.Hour)
	lapsed(true) // it never expires
	u.swap(t, step(mine, store.Record{}))
	u.wantState(t, id, store.StateAbsent)
}
