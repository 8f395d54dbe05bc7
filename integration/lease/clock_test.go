package lease

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
)

// TestClockStepsByAnHour steps the clock of the database by an hour, ahead and back, at each named point of an operation, and another process is asked for
// the same there. Whichever process finishes it, each phase has written once, and each call has one effect.
func TestClockStepsByAnHour(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	testenv.Need(t, "postgresql", "mariadb", "faketime")
	for _, name := range []string{harness.Pgx, harness.MariaDB} {
		t.Run(name, func(t *testing.T) {
			if name != harness.Pgx {
				testenv.Sample(t, 4)
			}
			t.Parallel()
			o, setClock := clockServer(t, name)
			service := newProvider(t, true)
			other := program{db: o.mustOpen(t), url: service.URL, policy: deduped, by: "other", ttl: patience}
			defer other.db.close()
			var hook func()
			o.at = func(string) { hook() }
			db := o.mustOpen(t)
			defer db.close()
			var finished atomic.Int64
			points := 0
			for _, step := range []time.Duration{time.Hour, -time.Hour} {
				for at, struck := 1, true; struck && !t.Failed(); at++ {
					key := step.String() + ", point " + time.Duration(at).String()
					passed := 0
					struck = false
					hook = func() {
						if passed++; passed != at {
							return
						}
						struck = true
						must(t, setClock(step))
						if _, err := other.do(t.Context(), operation(key)); err == nil {
							finished.Add(1)
						} else if code := once.CodeOf(err); code != once.CodeInFlight {
							t.Errorf("%s: the other process: %v", key, err)
						}
					}
					first := program{db: db, url: service.URL, policy: deduped, by: "first", ttl: patience, at: o.at}
					_, _ = first.do(t.Context(), operation(key))
					hook = func() {}
					must(t, setClock(0))
					other.insist(t, key)
					other.wantDone(t, service, key, key)
					points++
				}
			}
			testenv.Reportf(t, "%s: %d steps, %d operations were taken over", name, points, finished.Load())
			if points < 40 || finished.Load() < 10 {
				t.Errorf("vacuous: %d steps, %d operations were taken over", points, finished.Load())
			}
		})
	}
}

// clockServer starts a server with a clock of its own.
func clockServer(t *testing.T, name string) (o opening, set func(ahead time.Duration) error) {
	t.Helper()
	server, d := harness.NewServer(t, name, true)
	o = opening{Database: d}
	o.migrate(t)
	return o, server.SetClock
}
