package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlstore"
)

// TestRenewManyLeases: more than one statement takes, in any order, some of which are held no longer. Nothing
// but the ends of the leases changes.
func TestRenewManyLeases(t *testing.T) {
	testenv.Both(t)
	on(t, func(t *testing.T, db *sql.DB, s *sqlstore.Store) {
		const n = 230
		var holds, want []store.Hold
		for i := range n {
			id := store.ID{Scope: "renew", Key: fmt.Sprint(i)}
			c := running(id, 0)
			c.Lease = -time.Hour // over
			swap(t, s, c)
			h := holdOf(id, 1)
			switch i % 5 {
			case 1:
				h.Fence = 2
			case 2:
				h.Nonce = []byte("of another incarnation")
			case 3:
				swap(t, s, finished(id, 1))
			default:
				want = append(want, h)
			}
			holds = append(holds, h)
		}
		slices.Reverse(holds)
		for range 2 { // twice within a millisecond, perhaps: it is renewed all the same
			renewed, err := s.Renew(t.Context(), holds, time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			got, all := map[store.ID]int64{}, map[store.ID]int64{}
			for _, h := range renewed {
				got[h.ID] = h.Fence
			}
			for _, h := range want {
				all[h.ID] = h.Fence
			}
			if len(renewed) != len(want) || !maps.Equal(got, all) {
				t.Errorf("%d were renewed, want %d", len(renewed), len(want))
			}
		}
		for i := range n {
			id := store.ID{Scope: "renew", Key: fmt.Sprint(i)}
			rec := read(t, s, id)
			held := i%5 == 0 || i%5 == 4
			if rec.State == store.StateRunning && (rec.LeaseExpired == held || rec.Fence != 1 || rec.RecoveryPoint != "point 0" || string(rec.Data) != "data" || string(rec.Nonce) != string(nonceOf(id))) {
				t.Errorf("%d: %+v", i, rec)
			}
		}
		if renewed, err := s.Renew(t.Context(), nil, time.Hour); err != nil || len(renewed) != 0 {
			t.Errorf("of none: %v, %v", renewed, err)
		}
	})
}

// TestRenewAgainstTakeover: of a holder that renews a lease which is over, and others that take it over, the
// holder knows in the end whether it still has it.
func TestRenewAgainstTakeover(t *testing.T) {
	testenv.Both(t)
	on(t, func(t *testing.T, _ *sql.DB, s *sqlstore.Store) {
		kept, lost := 0, 0
		for i := range 60 {
			id := store.ID{Scope: "over", Key: fmt.Sprint(i)}
			c := running(id, 0)
			c.Lease = -time.Hour
			swap(t, s, c)
			renewed := make(chan bool)
			go func() {
				list, err := s.Renew(context.Background(), []store.Hold{holdOf(id, 1)}, time.Hour)
				if err != nil {
					t.Error(err)
				}
				renewed <- len(list) == 1
			}()
			over := running(id, 1)
			over.Expect.LeaseExpired = true
			_, err := s.Swap(t.Context(), over)
			has := <-renewed
			switch {
			case err == nil && !has:
				lost++
			case err == nil: // the renewal came first, so that the lease was not over; or it is a takeover of what was renewed
				t.Errorf("%d: renewed and taken over: %+v", i, read(t, s, id))
			case store.KindOf(err) == store.KindTaken && has:
				kept++
			default:
				t.Errorf("%d: renewed %t, taken over: %v", i, has, err)
			}
			if rec := read(t, s, id); rec.LeaseExpired {
				t.Errorf("%d: %+v", i, rec)
			}
		}
		t.Logf("%d kept, %d taken over", kept, lost)
	})
}
