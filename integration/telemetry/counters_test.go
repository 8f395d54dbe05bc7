package telemetry

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/onceprom"
)

var errDown = errors.New("down")

// TestCountersAgreeWithTheDatabase: many callers, with duplicates, refusals, failures and other requests for the
// same key. What was counted as executed and applied are the effects that the database holds, every call is counted once, and
// what was counted as a mismatch or failed are the calls that were told so.
func TestCountersAgreeWithTheDatabase(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, harness.Servers, testCounters[pgx.Tx], testCounters[*sql.Tx])
}

func testCounters[TX any](t *testing.T, g fixture[TX]) {
	m := onceprom.New(onceprom.Config{})
	const keys, callers = 8, 4
	var mu sync.Mutex
	calls, told := 0, map[string]float64{} // how calls have ended, by what callers were told
	var all sync.WaitGroup
	for range callers {
		e := once.New(g.store, once.Config{Observer: m}) // a process each, as far as the engine knows
		all.Go(func() {
			for i := range 4 * keys {
				op := operation(fmt.Sprint("k", i%keys))
				fn := g.pay(op.Key)
				switch i % keys {
				case 1:
					fn = func(context.Context, TX) (string, error) { return "", errDown }
				case 2:
					fn = func(ctx context.Context, tx TX) (string, error) {
						_, err := g.pay(op.Key)(ctx, tx)
						return "", errors.Join(err, &once.Failure{Code: "declined"})
					}
				case 3:
					if i > keys {
						op.Fingerprint = once.FingerprintOf([]byte("another request"))
					}
				}
				_, err := once.Do(t.Context(), e, op, fn)
				mu.Lock()
				calls++
				told[string(once.CodeOf(err))]++
				mu.Unlock()
			}
		})
	}
	all.Wait()

	got, err := counters(m)
	must(t, err)
	sum := func(decisions ...string) (n float64) {
		for _, d := range decisions {
			for _, effect := range []string{"applied", "not_applied", "in_doubt"} {
				n += got["operations_total{"+d+","+effect+",pay}"]
			}
		}
		return n
	}
	executed := got["operations_total{new_execution,applied,pay}"] + got["operations_total{conflict_retry,applied,pay}"]
	if n := g.count(t, "select count(*) from effect"); float64(n) != executed || n != keys-2 {
		t.Errorf("%d effects, %v executed, want %d: %v", n, executed, keys-2, got)
	}
	if n := sum("new_execution", "conflict_retry", "db_hit", "cache_hit", "in_flight", "mismatch", "stale", "unknown", "failed", "unavailable", "refused"); n != float64(calls) {
		t.Errorf("%v calls were counted of %d: %v", n, calls, got)
	}
	for decision, code := range map[string]once.Code{"mismatch": once.CodeMismatch, "failed": once.CodeFailed, "in_flight": once.CodeInFlight, "unavailable": once.CodeUnavailable} {
		if n := sum(decision); n != told[string(code)] {
			t.Errorf("%v counted as %s, %v callers were told so", n, decision, told[string(code)])
		}
	}
	if told[string(once.CodeMismatch)] == 0 || told[string(once.CodeFailed)] == 0 || sum("db_hit") == 0 {
		t.Errorf("not every way was taken: %v, %v", told, got)
	}
}
