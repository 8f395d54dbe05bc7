package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/upkeep"
)

// testSweep proves that sweepers delete expired operations and nothing else, even if several sweep at the same time. The test
// has its own store, because it moves the clock.
func testSweep[TX any](t *testing.T, u *suite[TX]) {
	if _, ok := store.As[upkeep.Sweeper](u.s); !ok {
		t.Skip("the store does not implement upkeep.Sweeper")
	}
	for _, c := range []struct {
		name string
		test func(*testing.T, *suite[TX])
	}{
		{"Expired", sweepExpired[TX]},
		{"Archive", sweepArchive[TX]},
		{"KeepFails", sweepKeepFails[TX]},
		{"Replaced", sweepReplaced[TX]},
		{"Claimed", sweepClaimed[TX]},
		{"Replacing", sweepReplacing[TX]},
		{"Isolation", sweepIsolation[TX]},
		{"Together", sweepTogether[TX]},
		{"Stored", testStored[TX]},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, u) })
		u.Advance(t, u.s, 2*time.Hour)
		u.sweepAll(t, u.s, nil) // the next case must begin without expired operations
	}
}

// sweep calls Sweep once.
func (u *suite[TX]) sweep(t *testing.T, s store.Store[TX], req upkeep.Sweep) upkeep.Swept {
	t.Helper()
	sweeper, _ := store.As[upkeep.Sweeper](s)
	swept, err := sweeper.Sweep(bounded(t), req)
	if err != nil {
		t.Fatal("Sweep:", err)
	}
	return swept
}

// sweepAll calls Sweep until nothing is left, and returns how many rows were deleted.
func (u *suite[TX]) sweepAll(t *testing.T, s store.Store[TX], keep func(context.Context, []upkeep.Expired) error) (rows int) {
	t.Helper()
	req := upkeep.Sweep{Limit: 7, Archive: keep}
	for more := true; more; {
		swept := u.sweep(t, s, req)
		if swept.Rows > req.Limit {
			t.Errorf("Sweep has deleted %d rows, want at most %d", swept.Rows, req.Limit)
		}
		rows, more, req.After = rows+swept.Rows, swept.More, swept.Mark
	}
	return rows
}

// expire stores n finished operations, and moves the clock until they have expired.
func (u *suite[TX]) expire(t *testing.T, n int) (changes []store.Change) {
	t.Helper()
	for range n {
		c := done(newID(), "expired")
		c.Next.Nonce = []byte(c.ID.Key)[:16]
		u.swap(t, c)
		changes = append(changes, c)
	}
	u.Advance(t, u.s, 2*time.Hour)
	return changes
}

func sweepExpired[TX any](t *testing.T, u *suite[TX]) {
	stays := map[store.ID]store.Record{}
	for _, state := range []store.State{store.StateRunning, store.StateWaiting, store.StateUnknown, store.StateDone} {
		c := change(newID(), store.Expect{}, claimed(store.Record{State: state, Fence: 1}))
		c.Retain = 0 // kept for ever
		u.swap(t, c)
		stays[c.ID] = c.Next
	}
	u.expire(t, 30)
	c := done(newID(), "live")
	u.swap(t, c)
	stays[c.ID] = c.Next
	if n := u.sweepAll(t, u.s, nil); n != 30 {
		t.Errorf("the sweeps have deleted %d of 30 rows", n)
	}
	if n := u.sweepAll(t, u.s, nil); n != 0 {
		t.Errorf("a further sweep has deleted %d rows, want 0", n)
	}
	for id, rec := range stays {
		u.same(t, "what has not expired", id, rec)
	}
}

func sweepArchive[TX any](t *testing.T, u *suite[TX]) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	want := map[store.ID]store.Record{}
	for range 20 {
		c := change(newID(), store.Expect{}, randomRecord(r, store.StateDone))
		u.swap(t, c)
		want[c.ID] = c.Next
	}
	before := time.Now().Add(-24 * time.Hour)
	u.Advance(t, u.s, 2*time.Hour)
	var last time.Time
	n := u.sweepAll(t, u.s, func(_ context.Context, rows []upkeep.Expired) error {
		for _, e := range rows {
			if d := diff(want[e.ID], e.Record); d != "" || e.Since.IsZero() {
				t.Errorf("seed %d: a row in the archive differs: %s", seed, d)
			}
			if e.At.Before(before) || e.At.Before(last) {
				t.Errorf("a row that expired at %v comes after a row that expired at %v", e.At, last)
			}
			last = e.At
			delete(want, e.ID)
		}
		return nil
	})
	if n != 20 || len(want) != 0 {
		t.Errorf("of 20 rows, %d were deleted and %d were not archived", n, len(want))
	}
}

func sweepKeepFails[TX any](t *testing.T, u *suite[TX]) {
	u.expire(t, 5)
	full := errors.New("the disk is full")
	sweeper, _ := store.As[upkeep.Sweeper](u.s)
	calls := 0
	swept, err := sweeper.Sweep(bounded(t), upkeep.Sweep{Limit: 3, Archive: func(context.Context, []upkeep.Expired) error {
		calls++
		return full
	}})
	if !errors.Is(err, full) || store.KindOf(err) != store.KindOther || swept.Rows != 0 || calls != 1 {
		t.Errorf("%+v, %v after %d calls of Archive", swept, err, calls)
	}
	if n := u.sweepAll(t, u.s, func(context.Context, []upkeep.Expired) error { return nil }); n != 5 {
		t.Errorf("%d of 5 rows are still stored", n)
	}
}

// sweepReplaced lets a request replace an expired row while Archive runs. The request must not wait, and the sweep must not
// delete the new row.
func sweepReplaced[TX any](t *testing.T, u *suite[TX]) {
	old := u.expire(t, 3)
	next := done(old[1].ID, "executed again")
	next.Next.Nonce = []byte("another's claim.")
	swept := u.sweep(t, u.s, upkeep.Sweep{Limit: 10, Archive: func(context.Context, []upkeep.Expired) error {
		txn, rec, err := u.peer.Begin(bounded(t), store.BeginOptions{ID: next.ID})
		if err != nil || txn == nil {
			return fmt.Errorf("a call during the sweep has found the record %+v: %w", rec, err)
		}
		return txn.Commit(bounded(t), next)
	}})
	if swept.Rows != 2 {
		t.Errorf("Sweep has deleted %d rows, want the 2 rows that were not replaced", swept.Rows)
	}
	u.same(t, "the row that has replaced an expired one", next.ID, next.Next)
}

// sweepClaimed sweeps while an open transaction executes an expired operation again.
func sweepClaimed[TX any](t *testing.T, u *suite[TX]) {
	old := u.expire(t, 3)
	for _, keeps := range []bool{false, true} {
		next := done(old[0].ID, "executed again")
		txn := u.begin(t, next.ID)
		u.write(t, txn, next.ID.Key)
		u.beside(t, keeps)
		if err := txn.Commit(bounded(t), next); err != nil {
			t.Fatal("the commit of an operation whose old row was swept has failed:", err)
		}
		u.same(t, "executed again", next.ID, next.Next)
		old = u.expire(t, 3)
	}
}

// sweepReplacing sweeps while the transaction that has replaced an expired row is still open.
func sweepReplacing[TX any](t *testing.T, u *suite[TX]) {
	if !u.joins {
		t.Skip("the store does not implement store.Joiner")
	}
	j, _ := store.As[store.Joiner[TX]](u.s)
	for _, keeps := range []bool{false, true} {
		next := done(u.expire(t, 3)[0].ID, "executed again")
		tx, end := u.Own(t, u.s)
		txn, rec, err := j.Join(bounded(t), tx, store.BeginOptions{ID: next.ID})
		if err != nil || txn == nil {
			t.Fatalf("Join: %+v, %v", rec, err)
		}
		if err := txn.Commit(bounded(t), next); err != nil {
			t.Fatal(err)
		}
		u.beside(t, keeps)
		if err := end(true); err != nil {
			t.Fatal("the caller's commit:", err)
		}
		u.same(t, "executed again", next.ID, next.Next)
	}
}

// beside sweeps while another transaction is open. The sweep must not wait for it, unless only one transaction at a time can
// write.
func (u *suite[TX]) beside(t *testing.T, keeps bool) {
	t.Helper()
	req := upkeep.Sweep{Limit: 100}
	if keeps {
		req.Archive = func(context.Context, []upkeep.Expired) error { return nil }
	}
	ctx := bounded(t)
	if u.OneWriter {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 200*time.Millisecond)
		defer cancel()
	}
	sweeper, _ := store.As[upkeep.Sweeper](u.peer)
	swept, err := sweeper.Sweep(ctx, req)
	switch {
	case u.OneWriter && hasWaited(err):
	case err != nil || swept.Rows < 2:
		t.Errorf("Sweep during an open transaction has returned %+v, error %v, want at least the 2 rows that the transaction does not claim", swept, err)
	}
}

// sweepIsolation sweeps an expired operation while an engine executes it again.
func sweepIsolation[TX any](t *testing.T, u *suite[TX]) {
	for _, isolation := range u.Isolations {
		id := u.expire(t, 1)[0].ID
		op := operation(id)
		op.Isolation = isolation
		runs := 0
		r, err := once.Do(bounded(t), u.engine(u.s, once.Config{}), op, func(ctx context.Context, tx TX) (int, error) {
			if runs++; !u.OneWriter && runs == 1 {
				u.sweep(t, u.peer, upkeep.Sweep{Limit: 10})
			}
			return runs, u.Write(ctx, tx, id.Key)
		})
		if err != nil || r.Replayed || r.Value != runs {
			t.Errorf("isolation %d: %+v, %v", isolation, r, err)
		}
		u.wantEffects(t, id.Key, 1)
		u.wantState(t, id, store.StateDone)
	}
}

// sweepTogether lets several sweepers work at the same time. Each row must be deleted once and, with an archive, be archived.
func sweepTogether[TX any](t *testing.T, u *suite[TX]) {
	const rows = 150
	for _, keeps := range []bool{false, true} {
		var mu sync.Mutex
		kept := map[store.ID]int{}
		for _, c := range u.expire(t, rows) {
			kept[c.ID] = 0
		}
		var keep func(context.Context, []upkeep.Expired) error
		if keeps {
			keep = func(_ context.Context, rows []upkeep.Expired) error {
				mu.Lock()
				defer mu.Unlock()
				for _, e := range rows {
					kept[e.ID]++
				}
				return nil
			}
		}
		var swept [4]int
		var group sync.WaitGroup
		for i, s := range []store.Store[TX]{u.s, u.peer, u.s, u.peer} {
			group.Go(func() { swept[i] = u.sweepAll(t, s, keep) })
		}
		group.Wait()
		sum := u.sweepAll(t, u.s, keep) // rows that one sweeper has skipped because another had locked them
		for _, n := range swept {
			sum += n
		}
		if sum != rows {
			t.Errorf("archive %t: the sweeps and the remaining rows are %v, together %d of %d rows", keeps, swept, sum, rows)
		}
		if lost := slices.Collect(func(yield func(store.ID) bool) {
			for id, n := range kept {
				if keeps && n == 0 && !yield(id) {
					return
				}
			}
		}); len(lost) > 0 {
			t.Errorf("%d rows were deleted, but are not in the archive", len(lost))
		}
	}
}
