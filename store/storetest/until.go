package storetest

import (
	"testing"
	"time"

	"github.com/oncelib/once/store"
)

// testUntil proves that Begin does not grant an absent operation when it is too late, even if the store could skip the
// look-up. An existing record must still be found. The times are years away, because a store's clock may differ from the
// clock of the test.
func testUntil[TX any](t *testing.T, u *suite[TX]) {
	const far = 10 * 365 * 24 * time.Hour
	over, ahead := time.Now().Add(-far), time.Now().Add(far)
	absent, expired, known, held := newID(), newID(), done(newID(), "known"), newID()
	c := done(expired, "expired")
	c.Retain = time.Minute
	u.swap(t, c)
	u.swap(t, known)
	u.Advance(t, u.s, 2*time.Minute)
	asks := map[string]func(t *testing.T, opts store.BeginOptions) (store.Transaction[TX], store.Record, error){
		"Begin": func(t *testing.T, opts store.BeginOptions) (store.Transaction[TX], store.Record, error) {
			return u.s.Begin(bounded(t), opts)
		},
	}
	if u.joins {
		asks["Join"] = func(t *testing.T, opts store.BeginOptions) (store.Transaction[TX], store.Record, error) {
			j, _ := store.As[store.Joiner[TX]](u.s)
			tx, end := u.Own(t, u.s)
			defer func() { _ = end(false) }() // no grant is expected
			txn, rec, err := j.Join(bounded(t), tx, opts)
			if err == nil {
				return txn, rec, err
			}
			if e := u.Write(bounded(t), tx, opts.ID.Key); e != nil {
				t.Error("the caller's transaction after a refusal:", e)
			}
			return txn, rec, err
		}
	}
	for name, opts := range asks {
		for _, first := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				for what, id := range map[string]store.ID{"absent": absent, "expired": expired} {
					txn, rec, err := opts(t, store.BeginOptions{ID: id, StaleAfter: over, First: first})
					if txn != nil || rec.State != store.StateAbsent || store.KindOf(err) != store.KindStale {
						t.Fatalf("%s and too late: %v, %+v, %v", what, txn, rec, err)
					}
				}
				if txn, rec, err := opts(t, store.BeginOptions{ID: known.ID, StaleAfter: over, First: first}); txn != nil || err != nil || diff(known.Next, rec) != "" {
					t.Errorf("known and too late: %v, %+v, %v", txn, rec, err)
				}
				if u.OneWriter || u.ClaimsByCommit {
					return
				}
				txn := u.begin(t, held)
				if other, rec, err := opts(t, store.BeginOptions{ID: held, StaleAfter: over, First: first}); other != nil || err != nil || rec.State != store.StateRunning {
					t.Errorf("held and too late: %v, %+v, %v", other, rec, err)
				}
				if err := txn.Rollback(bounded(t)); err != nil {
					t.Error(err)
				}
			})
		}
	}
	for _, id := range []store.ID{absent, expired} { // the refused calls hold no claim
		txn, rec, err := u.peer.Begin(bounded(t), store.BeginOptions{ID: id, StaleAfter: ahead, First: true})
		if txn == nil || err != nil {
			t.Fatalf("in time: %+v, %v", rec, err)
		}
		if err := txn.Commit(bounded(t), done(id, "in time")); err != nil {
			t.Error(err)
		}
	}
}
