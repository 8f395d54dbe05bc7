package storetest

import (
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/upkeep"
)

// testForever proves that a result which is kept for ever is replayed after two centuries, however it was written, and
// that no sweeper deletes it. The test has its own store, because it moves the clock.
func testForever[TX any](t *testing.T, u *suite[TX]) {
	e, peer := u.engine(u.s, once.Config{}), u.engine(u.peer, once.Config{})
	calls := map[string]call[TX]{
		"Do": u.doing(u.succeeds), "a failure": u.doing(u.declines), "DoBatch": u.declaring(nil),
	}
	if u.joins {
		calls["Join"] = u.joining(u.succeeds)
	}
	kept := map[string]once.Operation{}
	for name, do := range calls {
		op := operation(newID())
		op.Retain, op.Attempt.FirstSent = once.Forever, time.Now()
		if name == "Join" { // a Join does not ask how late the operation is
			op.Attempt.FirstSent = time.Time{}
		}
		kept[name] = op
		if r, err := do(bounded(t), trip[TX]{t: t, e: e, op: op}); !answered(err) || r.Replayed {
			t.Fatalf("%s: %+v, %v", name, r, err)
		}
	}
	ends := operation(newID())
	if _, err := once.Do(bounded(t), e, ends, u.charge(ends.Key)); err != nil {
		t.Fatal(err)
	}
	const century = 100 * 365 * 24 * time.Hour
	u.Advance(t, u.s, 2*century)
	if _, ok := store.As[upkeep.Sweeper](u.s); ok {
		if n := u.sweepAll(t, u.s, nil); n != 1 {
			t.Errorf("Sweep has deleted %d rows, want only the expired row", n)
		}
	}
	for name, op := range kept {
		if r, err := calls[name](bounded(t), trip[TX]{t: t, e: peer, op: op}); !answered(err) || !r.Replayed {
			t.Errorf("%s: %+v, %v, want a replay", name, r, err)
		}
	}
	late := operation(newID())
	late.Retain, late.Attempt.FirstSent = once.Forever, time.Now().Add(-2*century) // the record would never expire, so an absent operation was never done
	if r, err := once.Do(bounded(t), e, late, u.charge(late.Key)); err != nil || r.Replayed {
		t.Errorf("a call of an old operation without a record has returned %+v, error %v", r, err)
	}
}
