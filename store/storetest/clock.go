package storetest

import (
	"testing"
	"time"

	"github.com/oncelib/once/store"
)

// testTimes proves everything that depends on time. Its cases run one after the other, because each moves the clock
// of all.
func testTimes(t *testing.T, o *operations) {
	t.Run("TruthTable", func(t *testing.T) { testTruthTable(t, o) })
	t.Run("Held", func(t *testing.T) { testHeld(t, o) })
	t.Run("Lifecycle", func(t *testing.T) { testLifecycle(t, o) })
	t.Run("Retain", func(t *testing.T) {
		for _, by := range o.puts {
			id := newID()
			c := done(id, "first")
			c.Retain = 10 * time.Minute
			by.put(t, o.withEffect(c))
			o.advance(t, 9*time.Minute)
			o.wantState(t, id, store.StateDone)
			o.advance(t, 2*time.Minute)
			expired := store.Record{Nonce: c.Next.Nonce}
			if d := diff(expired, o.read(t, id)); d != "" {
				t.Errorf("Read of an expired record: %s", d)
			}
			next := done(id, "second")
			// A way that does not look first may meet the expired row. A plain Swap then replaces it.
			if err := by.apply(t, o.withEffect(next)); by.blind && store.KindOf(err) == store.KindTaken {
				o.puts[0].put(t, o.withEffect(next))
			} else if err != nil {
				t.Errorf("%s on an expired record has failed: %v", by.name, err)
			}
			o.same(t, "the record that has replaced an expired one", id, next.Next)
			o.wantEffects(t, id.Key, 2)
		}
	})
	t.Run("Since", func(t *testing.T) {
		for _, by := range o.puts {
			began := time.Now()
			first, second := newID(), newID()
			c := done(first, "r")
			c.Retain = 2 * time.Hour
			by.put(t, c)
			o.advance(t, time.Hour)
			o.swap(t, done(second, "r"))
			apart := o.read(t, second).Since.Sub(o.read(t, first).Since)
			if most := time.Hour + time.Since(began) + time.Second; apart < time.Hour-time.Second || apart > most {
				t.Errorf("%s: two records were made at an interval of one hour, but their Since differs by %v", by.name, apart)
			}
		}
	})
	t.Run("BecomesLease", func(t *testing.T) { testBecomesLease(t, o) })
}

// testClock runs testTimes, and the cases that need transactions.
func testClock[TX any](t *testing.T, u *suite[TX]) {
	testTimes(t, u.operations)
	t.Run("HeldUntilCommit", func(t *testing.T) { testHeldUntilCommit(t, u) })
	t.Run("RenewedMeanwhile", func(t *testing.T) { testRenewedMeanwhile(t, u) })
	t.Run("BeginExpired", func(t *testing.T) {
		id := newID()
		c := done(id, "first")
		c.Retain = time.Minute
		u.execute(t, c)
		u.Advance(t, u.s, 2*time.Minute)
		expired := store.Record{Nonce: c.Next.Nonce}
		txn, rec, err := u.s.Begin(bounded(t), store.BeginOptions{ID: id})
		if err != nil || txn == nil {
			t.Fatalf("Begin on an expired record: %+v, error %v", rec, err)
		}
		if d := diff(expired, rec); d != "" {
			t.Errorf("Begin on an expired record: %s", d)
		}
		if err := txn.Rollback(bounded(t)); err != nil { // the expired record stays
			t.Error(err)
		}
		if d := diff(expired, u.read(t, id)); d != "" {
			t.Errorf("Read of an expired record after a rollback: %s", d)
		}
		c = done(id, "second")
		u.execute(t, c)
		u.same(t, "the record that has replaced an expired one", id, c.Next)
		u.wantEffects(t, id.Key, 2)
	})
}

// testBecomesLease proves that a claim can end as a record that is not done: under a lease, without a lease, or
// unknown.
func testBecomesLease(t *testing.T, o *operations) {
	for _, by := range o.puts {
		id, never, unknown, refused := newID(), newID(), newID(), newID()
		c := store.Change{ID: id, Next: stored(store.StateRunning), Lease: time.Minute}
		by.put(t, o.withEffect(c))
		c.ID, c.Lease = never, 0
		by.put(t, o.withEffect(c))
		u := store.Change{ID: unknown, Next: calling(stored(store.StateUnknown)), Lease: time.Minute, Retain: time.Minute}
		by.put(t, o.withEffect(u))
		for _, late := range []bool{false, true} {
			o.same(t, by.name+" as running", id, c.Next)
			o.same(t, by.name+" as running without a lease", never, c.Next)
			o.same(t, by.name+" as unknown", unknown, u.Next)
			if rec := o.read(t, id); rec.LeaseExpired != late {
				t.Errorf("%s of a running record: LeaseExpired is %t, want %t", by.name, rec.LeaseExpired, late)
			}
			if o.read(t, never).LeaseExpired || o.read(t, unknown).LeaseExpired {
				t.Errorf("%s: LeaseExpired is true, but the record never had a lease", by.name)
			}
			if !late {
				o.advance(t, 2*time.Minute)
			}
		}
		o.wantEffects(t, id.Key, 1)
		finish := change(id, store.Expect{Fence: fence, Nonce: storedNonce}, store.Record{State: store.StateDone, Fence: fence + 1})
		o.swap(t, finish)
		o.same(t, by.name+" as running, then done", id, finish.Next)

		if by.name == "Swap" {
			continue // testTruthTable proves this for Swap
		}
		c = o.withEffect(change(refused, store.Expect{Fence: fence}, stored(store.StateDone)))
		wantKind(t, by.apply(t, c), store.KindTaken) // it is absent
		o.wantState(t, refused, store.StateAbsent)
		o.wantEffects(t, refused.Key, 0)
	}
}

// testLifecycle leads one leased operation through all of its states.
func testLifecycle(t *testing.T, o *operations) {
	id := newID()
	step := func(expect store.Expect, rec store.Record) store.Change {
		return store.Change{ID: id, Expect: expect, Next: claimed(rec), Lease: time.Minute, Retain: time.Hour}
	}
	refused := func(what string, c store.Change, in store.Record) {
		t.Helper()
		rec, err := o.peer.Swap(bounded(t), c)
		wantKind(t, err, store.KindTaken)
		if d := diff(in, rec); d != "" {
			t.Errorf("%s: the returned record is %+v: %s", what, rec, d)
		}
	}
	lapsed := func(want bool) {
		t.Helper()
		if rec := o.read(t, id); rec.State != store.StateRunning || rec.LeaseExpired != want {
			t.Errorf("the record is %+v, want a running record with LeaseExpired %t", rec, want)
		}
	}
	held := store.Record{State: store.StateRunning, Fence: 1, Nonce: []byte("one's claim 0123")}
	mine := store.Expect{Fence: 1}
	o.swap(t, step(store.Expect{}, held)) // claim
	lapsed(false)
	refused("a second claim", step(store.Expect{}, held), held)
	o.advance(t, 50*time.Second)
	o.swap(t, step(mine, held)) // heartbeat
	o.advance(t, 50*time.Second)
	lapsed(false)
	held.RecoveryPoint, held.Data, held.CallStarted = "charged", []byte("ch_1"), true
	o.swap(t, step(mine, held)) // checkpoint
	theirs := store.Record{State: store.StateRunning, Fence: 2, RecoveryPoint: held.RecoveryPoint, Data: held.Data, Nonce: []byte("two's claim 0123")}
	takeover := step(store.Expect{Fence: 1, LeaseExpired: true}, theirs)
	refused("a takeover too early", takeover, held)
	o.advance(t, 61*time.Second)
	lapsed(true)
	for _, l := range o.looks {
		if rec := l.see(t, id); !rec.LeaseExpired || diff(held, rec) != "" {
			t.Errorf("%s of a record whose lease has expired: %+v", l.name, rec)
		}
	}
	o.swap(t, takeover)
	lapsed(false)
	refused("the heartbeat of the old holder", step(mine, held), theirs)
	refused("the finish of the old holder", step(mine, store.Record{State: store.StateDone, Fence: 1}), theirs)
	refused("the release of the old holder", step(mine, store.Record{}), theirs)
	unknown := claimed(store.Record{State: store.StateUnknown, Fence: 2, RecoveryPoint: "charged", CallStarted: true})
	o.swap(t, step(store.Expect{Fence: 2}, unknown))
	o.advance(t, 1000*time.Hour)
	o.same(t, "unknown, much later", id, unknown)
	refused("the takeover of an unknown record", step(store.Expect{Fence: 2, LeaseExpired: true}, theirs), unknown)
	final := claimed(store.Record{State: store.StateDone, Fence: 2, Result: store.Result{Status: 201, Body: []byte("resolved")}})
	o.swap(t, step(store.Expect{Fence: 2}, final)) // resolve
	for _, n := range nexts {
		refused("to "+n.name+" when done", step(store.Expect{Fence: 2}, n.rec), final)
	}
	o.advance(t, 59*time.Minute)
	o.same(t, "done", id, final)
	o.advance(t, 2*time.Minute)
	o.wantState(t, id, store.StateAbsent)
	o.swap(t, step(store.Expect{}, held))
	o.advance(t, 1000*time.Hour)
	lapsed(true) // a running operation never expires
	o.swap(t, step(mine, store.Record{}))
	o.wantState(t, id, store.StateAbsent)
}
