package sqlstore

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
)

// TestTakeIsOneTransaction: fifteen operations that wait are taken by as many round trips as one, and those that another transaction has
// locked are left out.
func TestTakeIsOneTransaction(t *testing.T) {
	testenv.Prove(t)
	harness.Each(t, []string{harness.Postgres, harness.MariaDB, harness.MySQL}, func(t *testing.T, kind string) {
		t.Helper()
		var wire faultnet.Wire
		d := harness.Migrated(t, kind, nil).Interpolated()
		if kind != harness.Postgres { // what waits for a lock fails soon
			d.DSN += "&innodb_lock_wait_timeout=1"
		}
		s, db := harness.OpenDialed(t, d, wire.DialContext)
		_, other := harness.OpenSQL(t, d)
		const many = 16
		var ids []store.ID
		for i := range 1 + many {
			id := store.ID{Scope: "take", Key: fmt.Sprintf("%02d", i)}
			ids = append(ids, id)
			swap(t, s, store.Change{ID: id, Next: store.Record{State: store.StateWaiting, Fence: 1, Nonce: nonceOf(id), Name: "wait"}})
		}
		take := func(ids, want []store.ID) (trips int64) {
			t.Helper()
			harness.Must(t, db.PingContext(t.Context())) // pgx asks a connection that was not used for a second whether it is there
			before := wire.Counts().RoundTrips
			entries, err := s.Take(t.Context(), ids, []byte("taker"), time.Minute, store.Statement{SQL: "select t.scope from taken t"})
			harness.Must(t, err)
			var got []store.ID
			for _, e := range entries {
				got = append(got, e.ID)
			}
			slices.SortFunc(got, func(a, b store.ID) int { return slices.Compare([]byte(a.Key), []byte(b.Key)) })
			if !slices.Equal(got, want) {
				t.Errorf("taken: %v, want %v", got, want)
			}
			return wire.Counts().RoundTrips - before
		}
		take([]store.ID{{Scope: "take", Key: "absent"}}, nil) // statements are prepared once
		one := take(ids[:1], ids[:1])
		tx, err := other.BeginTx(t.Context(), nil)
		harness.Must(t, err)
		_, err = tx.ExecContext(t.Context(), harness.Text(s, "update once_operation set point = 'locked' where scope = 'take' and KEY = '16'").SQL)
		harness.Must(t, err)
		all := take(ids[1:], ids[1:many])
		harness.Must(t, tx.Rollback())
		testenv.Reportf(t, "%s: %d round trips", kind, one)
		if all != one {
			t.Errorf("%d operations cost %d round trips, and one costs %d", many-1, all, one)
		}
		take(ids[many:], ids[many:])
	})
}
