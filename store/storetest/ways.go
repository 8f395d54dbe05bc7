package storetest

import (
	"testing"
	"time"

	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/upkeep"
)

// operationsOf returns the store of u, and adds the ways of its transactions: a commit can do everything that Swap
// does.
func operationsOf[TX any](u *suite[TX]) *operations {
	h := u.Harness
	o := &operations{s: u.s, peer: u.peer, statement: h.Statement, claim: u.claims, maxResult: h.MaxResult, clockError: h.ClockError}
	o.advance = func(tb testing.TB, d time.Duration) { tb.Helper(); h.Advance(tb, u.s, d) }
	o.effects = func(tb testing.TB, key string) int { tb.Helper(); return h.Effects(tb, u.s, key) }
	o.ways = []way{o.bySwap(), {name: "Commit", apply: u.byCommit(store.BeginOptions{})}, {name: "Commit of a batch", apply: u.byCommit(store.BeginOptions{Batch: true})}}
	o.puts = []put{
		o.putBySwap(),
		{name: "Commit", apply: u.putByCommit(store.BeginOptions{})},
		{name: "Commit of a batch", apply: u.putByCommit(store.BeginOptions{Batch: true}), blind: true},
		{name: "Commit of a first attempt", apply: u.putByCommit(store.BeginOptions{First: true}), blind: true},
	}
	o.looks = []look{o.lookByRead(), {"Begin", u.lookByBegin(false)}, {"durable Begin", u.lookByBegin(true)}}
	if u.joins {
		o.ways = append(o.ways, way{name: "Join", apply: u.byJoin(true)}, way{name: "Join, rolled back", apply: u.byJoin(false), undone: true})
		o.puts = append(o.puts, put{name: "Join", apply: u.putByJoin})
	}
	if w, ok := store.As[upkeep.Writer[TX]](u.s); ok {
		o.ways = append(o.ways, way{name: "Write", tells: true, apply: u.byWrite(w, true)}, way{name: "Write, rolled back", apply: u.byWrite(w, false), undone: true})
	}
	return o
}

// byCommit applies c by the commit of a transaction that has claimed nothing.
func (u *suite[TX]) byCommit(opts store.BeginOptions) func(t *testing.T, c store.Change) (store.Record, error) {
	return func(t *testing.T, c store.Change) (rec store.Record, err error) {
		t.Helper()
		return rec, u.granted(t, opts).Commit(bounded(t), c)
	}
}

// byJoin applies c in a transaction of the caller. The caller writes once more afterwards, and then commits or rolls back.
func (u *suite[TX]) byJoin(commit bool) func(t *testing.T, c store.Change) (store.Record, error) {
	return u.byCaller(commit, func(t *testing.T, own caller[TX], c store.Change) (rec store.Record, err error) {
		t.Helper()
		return rec, u.joined(t, own, store.ID{}).Commit(bounded(t), c)
	})
}

// byWrite does the same with a [upkeep.Writer].
func (u *suite[TX]) byWrite(w upkeep.Writer[TX], commit bool) func(t *testing.T, c store.Change) (store.Record, error) {
	return u.byCaller(commit, func(t *testing.T, own caller[TX], c store.Change) (store.Record, error) {
		t.Helper()
		return w.Write(bounded(t), own.tx, c)
	})
}

func (u *suite[TX]) byCaller(commit bool, apply func(*testing.T, caller[TX], store.Change) (store.Record, error)) func(t *testing.T, c store.Change) (store.Record, error) {
	return func(t *testing.T, c store.Change) (store.Record, error) {
		t.Helper()
		own := u.own(t)
		rec, err := apply(t, own, c)
		if e := u.Write(bounded(t), own.tx, own.key); e != nil {
			t.Error("the caller's transaction cannot be used any more:", e)
		}
		if e := own.end(commit); e != nil {
			t.Error("the commit or rollback of the caller's transaction has failed:", e)
		}
		if n := u.Effects(t, u.s, own.key); commit != (n == 2) {
			t.Errorf("the caller's transaction has left %d of 2 effects, and its commit was called: %t", n, commit)
		}
		return rec, err
	}
}

// putByCommit applies c by the commit of a transaction that has claimed its operation.
func (u *suite[TX]) putByCommit(opts store.BeginOptions) func(t *testing.T, c store.Change) error {
	return func(t *testing.T, c store.Change) error {
		t.Helper()
		own := opts // a copy: parallel tests share this function
		own.ID = c.ID
		return u.granted(t, own).Commit(bounded(t), c)
	}
}

// putByJoin applies c in a transaction of the caller.
func (u *suite[TX]) putByJoin(t *testing.T, c store.Change) error {
	t.Helper()
	own := u.own(t)
	err := u.joined(t, own, c.ID).Commit(bounded(t), c)
	if e := own.end(true); e != nil {
		t.Error("the commit or rollback of the caller's transaction has failed:", e)
	}
	return err
}

// joined joins the caller's transaction, and must be granted.
func (u *suite[TX]) joined(t *testing.T, own caller[TX], id store.ID) store.Transaction[TX] {
	t.Helper()
	j, _ := store.As[store.Joiner[TX]](u.s)
	txn, rec, err := j.Join(bounded(t), own.tx, store.BeginOptions{ID: id})
	if err != nil || txn == nil {
		_ = own.end(false)
		t.Fatalf("Join has not granted the claim: record %+v, error %v", rec, err)
	}
	return txn
}

func (u *suite[TX]) lookByBegin(durable bool) func(t *testing.T, id store.ID) store.Record {
	return func(t *testing.T, id store.ID) store.Record {
		t.Helper()
		txn, rec, err := u.peer.Begin(bounded(t), store.BeginOptions{ID: id, Durable: durable})
		if txn != nil {
			_ = txn.Rollback(bounded(t))
		}
		if err != nil || txn != nil {
			t.Fatalf("Begin on a record: transaction %v, error %v", txn, err)
		}
		return rec
	}
}

// claims claims id in an open transaction. free rolls the transaction back.
func (u *suite[TX]) claims(t *testing.T, id store.ID) (free func()) {
	t.Helper()
	txn := u.begin(t, id)
	return func() {
		t.Helper()
		if err := txn.Rollback(bounded(t)); err != nil {
			t.Error(err)
		}
	}
}
