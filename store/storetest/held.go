package storetest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once/store"
)

// testHeld proves that a Change applies only while the operations in Held are held. A lease that is over still counts as held
// until another owner takes the operation over.
func testHeld(t *testing.T, o *operations) {
	if o.oneRecord {
		c := change(newID(), store.Expect{}, store.Record{State: store.StateRunning, Fence: 1})
		c.Held = []store.Hold{{ID: newID(), Fence: 1, Nonce: storedNonce}}
		_, err := o.s.Swap(bounded(t), c)
		wantKind(t, err, store.KindMisused)
		o.wantState(t, c.ID, store.StateAbsent)
		return
	}
	mine := store.Expect{Fence: fence, Nonce: storedNonce}
	for i, h := range []struct {
		name string
		hold store.Hold     // without the ID
		then []store.Record // changes of the held operation before the test
		over bool           // its lease is over
		held bool
	}{
		{name: "held", held: true},
		{name: "lease over", over: true, held: true},
		{name: "another fence", hold: store.Hold{Fence: fence + 1, Nonce: storedNonce}},
		{name: "an earlier fence", hold: store.Hold{Fence: fence - 1, Nonce: storedNonce}},
		{name: "another nonce", hold: store.Hold{Fence: fence, Nonce: otherNonce}},
		{name: "no nonce", hold: store.Hold{Fence: fence}},
		{name: "released", then: []store.Record{{}}},
		{name: "released and claimed again", then: []store.Record{{}, {State: store.StateRunning, Fence: fence, Nonce: nextNonce}}},
		{name: "taken over", over: true, then: []store.Record{{State: store.StateRunning, Fence: fence + 1, Nonce: nextNonce}}},
		{name: "done", then: []store.Record{{State: store.StateDone, Fence: fence, Nonce: storedNonce}}},
		{name: "waiting", then: []store.Record{{State: store.StateWaiting, Fence: fence, Nonce: storedNonce}}},
		{name: "unknown", then: []store.Record{{State: store.StateUnknown, Fence: fence, Nonce: storedNonce}}},
		{name: "never claimed", then: []store.Record{{}}},
	} {
		if h.hold.Fence == 0 {
			h.hold.Fence, h.hold.Nonce = fence, storedNonce
		}
		for w, by := range o.claiming() {
			if w > 0 && !h.held && (i+w)%3 != 0 {
				continue // the first way tries all reasons, the other ways some
			}
			name := by.name + ", " + h.name
			held, good := newID(), newID()
			o.swap(t, change(good, store.Expect{}, stored(store.StateRunning)))
			if h.name != "never claimed" {
				c := store.Change{ID: held, Next: stored(store.StateRunning), Lease: time.Minute, Retain: time.Hour}
				o.swap(t, c)
				if h.over {
					o.advance(t, 2*time.Minute)
				}
				for i, rec := range h.then {
					c.Expect, c.Next = mine, rec
					if i > 0 {
						c.Expect = store.Expect{}
					}
					o.swap(t, c)
				}
			}
			before := o.read(t, held)
			h.hold.ID = held
			c := o.withEffect(change(newID(), store.Expect{}, store.Record{State: store.StateRunning, Fence: 1}))
			c.Held = []store.Hold{{ID: good, Fence: fence, Nonce: storedNonce}, h.hold}
			_, err := by.apply(t, c)
			applied := h.held && !by.undone
			switch {
			case h.held && err != nil:
				t.Errorf("%s: %v", name, err)
			case !h.held:
				if err == nil || store.KindOf(err) != store.KindTaken {
					t.Errorf("%s: the error is %v, want an error of kind Taken", name, err)
				}
			}
			want := store.StateAbsent
			if applied {
				want = store.StateRunning
			}
			if rec := o.read(t, c.ID); rec.State != want {
				t.Errorf("%s: the record is %s afterwards, want %s", name, rec.State, want)
			}
			o.wantEffectsOf(t, name, c, applied)
			if d := diff(before, o.read(t, held)); d != "" {
				t.Errorf("%s: the operation in Change.Held has changed: %s", name, d)
			}
			if d := diff(stored(store.StateRunning), o.read(t, good)); d != "" {
				t.Errorf("%s: the held operation has changed: %s", name, d)
			}
		}
	}
	t.Run("Writes", func(t *testing.T) { // without an operation
		if o.statement == nil {
			return
		}
		id := newID()
		o.swap(t, change(id, store.Expect{}, stored(store.StateRunning)))
		for _, by := range o.ways {
			for nonce, want := range map[string]int{string(storedNonce): 1, string(otherNonce): 0} {
				key := newID().Key
				c := store.Change{Held: []store.Hold{{ID: id, Fence: fence, Nonce: []byte(nonce)}}, Writes: []store.Statement{o.statement(key)}}
				_, err := by.apply(t, c)
				if want == 1 && err != nil || want == 0 && (err == nil || store.KindOf(err) != store.KindTaken) {
					t.Errorf("%s under %q: %v", by.name, nonce, err)
				}
				if by.undone {
					want = 0
				}
				o.wantEffects(t, key, want)
			}
		}
	})
	t.Run("Crossed", func(t *testing.T) { testHeldCrossed(t, o) })
}

// testHeldCrossed lets two changes hold each other's operation. Both must end, with the effect of one after the other.
func testHeldCrossed(t *testing.T, o *operations) {
	for _, raises := range []bool{false, true} {
		for round := range 10 {
			ids := [2]store.ID{newID(), newID()}
			for _, id := range ids {
				o.swap(t, change(id, store.Expect{}, stored(store.StateRunning)))
			}
			var errs [2]error
			var group sync.WaitGroup
			for i, s := range []store.Operations{o.s, o.peer} {
				next := stored(store.StateRunning)
				next.Data = fmt.Append(nil, round)
				if raises { // the other change then no longer holds its operation
					next.Fence++
				}
				c := change(ids[i], store.Expect{Fence: fence, Nonce: storedNonce}, next)
				c.Held = []store.Hold{{ID: ids[1-i], Fence: fence, Nonce: storedNonce}}
				group.Go(func() {
					for range 20 {
						if _, errs[i] = s.Swap(bounded(t), c); errs[i] == nil || store.KindOf(errs[i]) != store.KindRetry {
							break
						}
					}
				})
			}
			group.Wait()
			applied := 0
			for i, err := range errs {
				rec := o.read(t, ids[i])
				if (err == nil) != (string(rec.Data) == fmt.Sprint(round)) {
					t.Errorf("the error is %v, and the record %+v", err, rec)
				}
				if err == nil {
					applied++
				} else if !raises || store.KindOf(err) != store.KindTaken {
					t.Errorf("two changes, each with the operation of the other in Change.Held, have returned %v", err)
				}
			}
			if raises && applied != 1 {
				t.Errorf("two changes each end the operation in Change.Held of the other change, and %d of them were applied, want 1", applied)
			}
		}
	}
}

// testHeldUntilCommit proves that a caller's transaction commits only if the operations in Change.Held are still held at
// that time.
func testHeldUntilCommit[TX any](t *testing.T, u *suite[TX]) {
	if !u.joins {
		return
	}
	held := newID()
	u.swap(t, change(held, store.Expect{}, stored(store.StateRunning)))
	own := u.own(t)
	c := u.withEffect(change(newID(), store.Expect{}, store.Record{State: store.StateRunning, Fence: 1}))
	c.Held = []store.Hold{{ID: held, Fence: fence, Nonce: storedNonce}}
	if err := u.joined(t, own, store.ID{}).Commit(bounded(t), c); err != nil {
		t.Error(err)
	}
	takeover := change(held, store.Expect{Fence: fence}, store.Record{State: store.StateRunning, Fence: fence + 1, Nonce: nextNonce})
	taken, ctx := make(chan error, 1), bounded(t)
	go func() {
		_, err := u.peer.Swap(ctx, takeover)
		taken <- err
	}()
	var err error
	waits := false
	// The takeover either waits for the caller's transaction, or makes its commit fail.
	select {
	case err = <-taken:
	case <-time.After(100 * time.Millisecond):
		waits = true
	}
	applied := own.end(true) == nil
	if waits {
		err = <-taken
	}
	if !waits && err == nil && applied {
		t.Error("another owner has taken the operation over before the commit of the transaction that holds the operation")
	}
	if err != nil && store.KindOf(err) != store.KindRetry {
		t.Errorf("the takeover has failed: %v", err)
	}
	u.wantEffectsOf(t, "held until the commit", c, applied)
}
