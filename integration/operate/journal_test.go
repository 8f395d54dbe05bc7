package operate_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/sql/attempts"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/store"
)

// nasty are texts that a key or a scope may be.
var nasty = []string{
	"it's", `"quoted"`, `back\slash`, "100%", "under_score", "per%cent_", "a\u202eb", "schlüssel", "鍵", "🔑", "k; drop table once_operation", "$1", "?", "NULL", " ", "KEY NOW", "\U0010ffff",
}

func attemptAt(i int, scope, key string) attempts.Attempt {
	a := attempts.Attempt{
		Ended: time.Now(), Scope: scope, KeyHash: once.KeyHash(key), Outcome: "failed", Effect: "not applied", From: "absent", To: "absent", Cause: "23505",
		Attempt: 2, Runs: 3, RequestID: fmt.Sprint("r", i), CorrelationID: "c", Node: "n",
		LockWait: 1 * time.Microsecond, Waited: 2 * time.Microsecond, Handler: 3 * time.Microsecond, Commit: 4 * time.Microsecond, Total: 5 * time.Microsecond,
	}
	binary.BigEndian.PutUint64(a.ID[:], uint64(i))
	return a
}

// TestAttemptsAreKept: what was written is read, once, whatever it is.
func TestAttemptsAreKept(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, func(t *testing.T, g *testDB) {
		var list []attempts.Attempt
		for i, text := range nasty {
			list = append(list, attemptAt(i, "scope "+text, text))
		}
		list[0].Attempt, list[0].Runs, list[0].Total, list[0].RequestID = math.MaxInt, math.MaxInt, math.MaxInt64, list[0].Scope
		list[1].Ended = time.Now().Add(-time.Hour)
		for i := len(list); i < 500; i++ { // more than one statement takes
			list = append(list, attemptAt(i, "bulk", "bulk"))
			list[i].Ended = time.Now().Add(-time.Duration(500-i) * time.Second)
		}
		for range 2 { // again, as after a lost answer
			must(t, g.attempts.Write(t.Context(), list))
		}
		must(t, g.attempts.Write(t.Context(), nil))
		now, err := g.keys.Now(t.Context())
		must(t, err)
		for i, text := range nasty {
			tl, err := g.keys.Timeline(t.Context(), "scope "+text, text, 10)
			must(t, err)
			if len(tl.Attempts) != 1 || tl.Total != 1 || tl.Dropped != 0 || len(tl.Audit) != 0 {
				t.Fatalf("%q: %+v", text, tl)
			}
			ago := now.Sub(tl.Attempts[0].At)
			if i == 1 {
				ago -= time.Hour
			}
			if ago < -time.Minute || ago > time.Minute {
				t.Errorf("%q: %v ago", text, ago)
			}
			a := list[i]
			tl.Attempts[0].At = time.Time{}
			want := operate.Attempt{
				Scope: a.Scope, Outcome: a.Outcome, Effect: a.Effect, From: a.From, To: a.To, Cause: a.Cause, Attempt: int64(a.Attempt), Runs: int64(a.Runs),
				RequestID: a.RequestID, CorrelationID: "c", Node: "n", LockWait: a.LockWait, Waited: a.Waited, Handler: a.Handler, Commit: a.Commit, Total: a.Total.Truncate(time.Microsecond),
			}
			if tl.Attempts[0] != want {
				t.Errorf("%q:\n%+v\nwant\n%+v", text, tl.Attempts[0], want)
			}
			if elsewhere, err := g.keys.Timeline(t.Context(), "scope", text, 10); err != nil || elsewhere.Total != 0 {
				t.Errorf("%q in another scope: %+v, %v", text, elsewhere, err)
			}
		}
		tl, err := g.keys.Timeline(t.Context(), "", "bulk", 3)
		must(t, err)
		if tl.Total != 500-len(nasty) || len(tl.Attempts) != 3 || tl.Attempts[2].RequestID != "r499" || tl.Attempts[0].RequestID != "r497" {
			t.Errorf("%d, the last %+v", tl.Total, tl.Attempts)
		}
	})
}

// TestAttemptsAreSwept: by age alone, by the database's clock, and once, also if
// several nodes sweep at the same time.
func TestAttemptsAreSwept(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, func(t *testing.T, g *testDB) {
		var list []attempts.Attempt
		for i := range 500 {
			list = append(list, attemptAt(i, "s", fmt.Sprint(i)))
			if i%5 > 0 {
				list[i].Ended = time.Now().Add(-time.Duration(i) * time.Hour)
			}
		}
		must(t, g.attempts.Write(t.Context(), list))
		if n, err := g.attempts.Sweep(t.Context(), 400*time.Hour+time.Minute, 7); err != nil || n != 7 {
			t.Fatalf("%d swept, %v, want as many as asked for", n, err)
		}
		if n := g.count(t, "select count(*) from once_attempt where request_id in ('r499', 'r498', 'r497', 'r496', 'r494', 'r493', 'r492')"); n != 0 {
			t.Errorf("%d of the oldest are left", n)
		}
		var wg sync.WaitGroup
		counts := make([]int, 4)
		for i := range counts {
			wg.Go(func() {
				for n := 10; n == 10; counts[i] += n {
					var err error
					if n, err = g.attempts.Sweep(t.Context(), 30*time.Minute, 10); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		last, err := g.attempts.Sweep(t.Context(), 30*time.Minute, 1000) // nodes pass over what others delete, and so may stop early
		must(t, err)
		if sum := counts[0] + counts[1] + counts[2] + counts[3] + last; sum != 393 || g.count(t, "select count(*) from once_attempt") != 100 {
			t.Errorf("%d swept, want 393; %d left", sum, g.count(t, "select count(*) from once_attempt"))
		}
	})
}

// TestMissingTable: a database without the tables says what to do.
func TestMissingTable(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, func(t *testing.T, g *testDB) {
		g.exec(t, "drop table once_attempt")
		err := g.attempts.Write(t.Context(), []attempts.Attempt{attemptAt(1, "s", "k")})
		if store.KindOf(err) != store.KindUnavailable || !contains(err, "once migrate up --only attemptlog") {
			t.Error(err)
		}
		if _, err := g.attempts.Sweep(t.Context(), time.Hour, 1); !contains(err, "once migrate up --only attemptlog") {
			t.Error(err)
		}
	})
}
