package operate_test

import (
	"database/sql"
	"errors"
	"testing"

	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlstore"
)

// TestResolveNothingHalf fails every call that a decision makes of the driver, before and after it was done, until there is none left:
// the decision and its entry of the audit are there or not, together. If the command is then repeated, it is decided once.
func TestResolveNothingHalf(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onSQL(t, func(t *testing.T, g *testDB) {
		plain, err := sql.Open(g.Driver(), g.DSN)
		must(t, err)
		defer func() { _ = plain.Close() }()
		ops, _ := store.As[store.Operations](g.plane)
		id := store.ID{Scope: "s", Key: "k"}
		for _, applied := range []bool{false, true} {
			failed := 0
			for n := 1; ; n++ {
				g.exec(t, "delete from once_operation")
				g.exec(t, "delete from once_audit")
				g.leased(t, id.Scope, id.Key, store.StateUnknown)
				how := lease.Resolution{CallID: undecided(t, ops, id), RunAgain: true, KeyVoided: true, Who: "ada", Reason: "asked"}
				f := &faults{applied: applied}
				db := sqlstore.OpenDB(g.dialect, faultyConnector{plain.Driver(), g.DSN, f})
				s, err := sqlstore.New(t.Context(), db, sqlstore.Config{})
				must(t, err)
				f.count, f.at = 0, n
				err = lease.Resolve(t.Context(), s, id, how)
				must(t, db.Close())
				rec, e := ops.Read(t.Context(), id)
				must(t, e)
				entries := g.count(t, "select count(*) from once_audit")
				if done := rec.Fence == 4; done != (entries == 1) || !done && (rec.Fence != 3 || entries != 0 || err == nil) {
					t.Errorf("call %d (%s), applied %v: fence %d, %d entries, %v", n, f.last, applied, rec.Fence, entries, err)
				}
				if err != nil {
					failed++
				}
				if err != nil && !errors.Is(err, errFault) {
					t.Fatal(err)
				}
				must(t, lease.Resolve(t.Context(), ops, id, how))
				rec, e = ops.Read(t.Context(), id)
				must(t, e)
				p, e := lease.ProgressOf(id, rec)
				must(t, e)
				if entries := g.count(t, "select count(*) from once_audit"); rec.Fence != 4 || entries != 1 || rec.State != store.StateWaiting || p.Call != nil || p.CallID != "" {
					t.Errorf("call %d, applied %v: repeated: %+v, %d entries", n, applied, rec, entries)
				}
				if f.count < n { // there was no such call
					if err != nil || n < 5 {
						t.Errorf("%d calls, %v", n-1, err)
					}
					break
				}
			}
			if failed == 0 {
				t.Errorf("applied %v: nothing has failed", applied)
			}
		}
	})
}
