package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/oncelib/once/internal/base/ability"
	"github.com/oncelib/once/internal/base/waits"
	"github.com/oncelib/once/store"
)

// testTxn proves what Begin, Commit and Rollback promise.
func testTxn[TX any](t *testing.T, u *suite[TX]) {
	t.Run("ClaimExcludes", func(t *testing.T) {
		id := newID()
		txn := u.begin(t, id)
		u.write(t, txn, id.Key)
		u.busy(t, u.peer, id)
		u.busy(t, u.s, id)
		u.wantEffects(t, id.Key, 0)
		if err := txn.Commit(bounded(t), done(id, "r")); err != nil {
			t.Fatal(err)
		}
		u.wantState(t, id, store.StateDone)
		u.wantEffects(t, id.Key, 1)
	})
	t.Run("ClaimsByCommit", func(t *testing.T) { testCommitClaims(t, u) })
	t.Run("RollbackFrees", func(t *testing.T) {
		id := newID()
		for range 3 {
			txn := u.begin(t, id)
			u.write(t, txn, id.Key)
			if err := txn.Rollback(bounded(t)); err != nil {
				t.Error(err)
			}
			u.wantState(t, id, store.StateAbsent)
			u.wantEffects(t, id.Key, 0)
		}
		u.execute(t, done(id, "r"))
	})
	t.Run("OthersAreFree", func(t *testing.T) {
		// With one writer, the transaction of b would wait for that of a.
		if u.OneWriter {
			return
		}
		a, b := newID(), newID()
		held := u.begin(t, a)
		u.execute(t, done(b, "b"))
		if err := held.Commit(bounded(t), done(a, "a")); err != nil {
			t.Error(err)
		}
	})
	t.Run("First", func(t *testing.T) { u.putOff(t, store.BeginOptions{First: true}) }) // a false First costs time, nothing else
	t.Run("Optimistic", func(t *testing.T) { u.putOff(t, store.BeginOptions{Optimistic: func() {}}) })
	t.Run("Plain", func(t *testing.T) { // no operation, no record
		id := newID()
		for i, end := range []func(store.Transaction[TX]) error{
			func(txn store.Transaction[TX]) error { return txn.Rollback(bounded(t)) },
			func(txn store.Transaction[TX]) error { return txn.Commit(bounded(t), store.Change{}) },
		} {
			txn := u.begin(t, store.ID{})
			u.write(t, txn, id.Key)
			if err := end(txn); err != nil {
				t.Error(err)
			}
			u.wantEffects(t, id.Key, i)
		}
		u.wantState(t, store.ID{}, store.StateAbsent)
	})
	t.Run("Isolation", func(t *testing.T) { testIsolation(t, u) })
	t.Run("HoldsNothing", func(t *testing.T) { // 300 is more than the connections of any pool, so a leak shows
		found, held := newID(), newID()
		u.execute(t, done(found, "r"))
		for range 300 {
			if txn, rec, err := u.s.Begin(bounded(t), store.BeginOptions{ID: found}); txn != nil || err != nil || rec.State != store.StateDone {
				t.Fatal(txn, rec, err)
			}
			if err := u.begin(t, newID()).Rollback(bounded(t)); err != nil {
				t.Fatal(err)
			}
		}
		txn := u.begin(t, held)
		for range 300 {
			if u.OneWriter {
				break
			}
			u.busy(t, u.s, held)
		}
		if err := txn.Rollback(bounded(t)); err != nil {
			t.Error(err)
		}
	})
	t.Run("Cancelled", func(t *testing.T) {
		dead, cancel := context.WithCancel(t.Context())
		cancel()
		id := newID()
		txn, _, err := u.s.Begin(dead, store.BeginOptions{ID: id})
		if txn != nil {
			t.Error("Begin has granted the claim, although its context had ended")
		}
		wantKind(t, err, store.KindUnavailable)
		u.execute(t, done(id, "r")) // the refused Begin has left no claim
		_, err = u.s.Read(dead, id)
		wantKind(t, err, store.KindUnavailable)
	})
	t.Run("Swallowed", func(t *testing.T) {
		id := newID()
		txn := u.begin(t, id)
		u.write(t, txn, id.Key)
		if err := u.Fail(bounded(t), txn.Tx()); err == nil {
			t.Error("a statement that must fail has not failed")
		}
		if err := u.Write(bounded(t), txn.Tx(), id.Key); err == nil {
			t.Error("the transaction has accepted a statement after another statement had failed")
		}
		wantKind(t, txn.Commit(bounded(t), done(id, "r")), store.KindAborted)
		u.wantState(t, id, store.StateAbsent)
		u.wantEffects(t, id.Key, 0)

		txn = u.begin(t, id) // the claim is free, and a rollback is no failure
		if err := u.Fail(bounded(t), txn.Tx()); err == nil {
			t.Error("a statement that must fail has not failed")
		}
		if err := txn.Rollback(bounded(t)); err != nil {
			t.Error(err)
		}
		u.execute(t, done(id, "r"))
	})
	t.Run("Waits", func(t *testing.T) { // Acquire and Lock are parts of the time that Begin takes
		for _, opts := range []store.BeginOptions{{ID: newID()}, {ID: newID(), First: true}, {}} {
			waits := waits.Waits{Acquire: time.Hour, Lock: time.Hour}
			opts.Waits = &waits
			began := time.Now()
			txn := u.granted(t, opts)
			took := time.Since(began)
			if waits.Acquire < time.Hour || waits.Lock < time.Hour || waits.Acquire+waits.Lock-2*time.Hour > took {
				t.Errorf("options %+v: Begin has added %v to waits.Acquire and %v to waits.Lock, but took only %v", opts, waits.Acquire-time.Hour, waits.Lock-time.Hour, took)
			}
			if err := txn.Rollback(bounded(t)); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("Ended", func(t *testing.T) { testEnded(t, u) })
	t.Run("Statements", func(t *testing.T) {
		id := newID()
		txn := u.begin(t, id)
		if c, ok := store.As[ability.Counter](txn); ok {
			before := c.Statements()
			u.write(t, txn, id.Key)
			if before != 0 || c.Statements() < 1 {
				t.Errorf("Statements() was %d before the first statement and %d after it", before, c.Statements())
			}
		}
		if err := txn.Rollback(bounded(t)); err != nil {
			t.Error(err)
		}
	})
}

// testCommitClaims proves that only one of two transactions of one operation commits if Begin succeeds for both.
func testCommitClaims[TX any](t *testing.T, u *suite[TX]) {
	if !u.ClaimsByCommit {
		return // ClaimExcludes proves more
	}
	for _, level := range append([]store.Isolation{store.DefaultIsolation}, u.Isolations...) {
		id := newID()
		var both [2]store.Transaction[TX]
		for i := range both {
			both[i] = u.granted(t, store.BeginOptions{ID: id, Isolation: level})
			u.write(t, both[i], id.Key)
		}
		if err := both[1].Commit(bounded(t), done(id, "r")); err != nil {
			t.Error(err)
		}
		err := both[0].Commit(bounded(t), done(id, "late"))
		if kind := store.KindOf(err); err == nil || kind != store.KindTaken && kind != store.KindRetry {
			t.Errorf("isolation %d: the second commit has returned %v, want an error of kind Taken or Retry", level, err)
		}
		u.wantEffects(t, id.Key, 1)
		if body := string(u.read(t, id).Result.Body); body != "r" {
			t.Errorf("isolation %d: the stored result is %q, which no handler has returned", level, body)
		}
	}
}

// testEnded proves that a handler cannot end its transaction unnoticed. Either the store refuses that and nothing is
// applied, or the store reports it.
func testEnded[TX any](t *testing.T, u *suite[TX]) {
	if u.End == nil {
		return // the store's TX cannot do it
	}
	for name, end := range map[string]func(txn store.Transaction[TX], id store.ID) error{
		"Commit":   func(txn store.Transaction[TX], id store.ID) error { return txn.Commit(bounded(t), done(id, "r")) },
		"Rollback": func(txn store.Transaction[TX], _ store.ID) error { return txn.Rollback(bounded(t)) },
	} {
		id := newID()
		txn := u.begin(t, id)
		u.write(t, txn, id.Key)
		refused := u.End(bounded(t), txn.Tx())
		err := end(txn, id)
		switch kind := store.KindOf(err); {
		case refused == nil && kind != store.KindEnded:
			t.Errorf("%s after a COMMIT in SQL has returned %v, want an error of kind Ended", name, err)
		case refused != nil && name == "Commit" && (err == nil || kind == store.KindLost):
			t.Errorf("%s after a refused COMMIT in SQL has returned %v, want an error that is not of kind Lost", name, err)
		}
		want := 0
		if refused == nil {
			want = 1
		}
		u.wantEffects(t, id.Key, want)
		u.wantState(t, id, store.StateAbsent)
	}
}

// putOff proves that a delayed claim still excludes. The store may claim the operation together with its first write.
func (u *suite[TX]) putOff(t *testing.T, opts store.BeginOptions) {
	t.Helper()
	id := newID()
	opts.ID = id
	txn, _, err := u.s.Begin(bounded(t), opts)
	if err != nil || txn == nil {
		t.Fatal(txn, err)
	}
	u.write(t, txn, id.Key)
	if err := txn.Commit(bounded(t), done(id, "r")); err != nil {
		t.Fatal(err)
	}
	txn, rec, err := u.s.Begin(bounded(t), opts)
	switch {
	case err != nil:
		t.Fatal(err)
	case txn == nil:
		if rec.State != store.StateDone {
			t.Errorf("Begin: %+v", rec)
		}
	default:
		// With Optimistic, the write itself may be refused.
		if err := u.Write(bounded(t), txn.Tx(), id.Key); err != nil && opts.First {
			t.Fatal("Write:", err)
		}
		wantKind(t, txn.Commit(bounded(t), done(id, "again")), store.KindTaken)
	}
	u.wantEffects(t, id.Key, 1)
	if body := string(u.read(t, id).Result.Body); body != "r" {
		t.Errorf("the result is %q", body)
	}
}
