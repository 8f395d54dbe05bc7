package telemetry

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/onceprom"
)

// killedKey is the operation in which a process dies, of those that it has.
const (
	keys      = 5
	killedKey = "k2"
)

// life is what a process does: each operation once, and after each of them it is scraped. At is where it kills itself.
type life struct {
	Database harness.Database
	At       string
}

// The points of an operation.
const (
	atClaim     = "the claim"
	inHandler   = "the handler"
	afterCommit = "after COMMIT, before it is counted"
	afterCount  = "after it is counted, before a scrape"
	atScrape    = "after the scrape"
	nowhere     = ""
)

// told is what a process tells after each operation.
type told struct {
	Key      string
	Replayed bool
	Counters map[string]float64
}

// CarryOut implements harness.Plan.
func (l life) CarryOut(ctx context.Context) error {
	return l.Database.Use(ctx,
		func(s harness.Store[pgx.Tx]) error { return work(ctx, l, fixture[pgx.Tx]{s}) },
		func(s harness.Store[*sql.Tx]) error { return work(ctx, l, fixture[*sql.Tx]{s}) })
}

func work[TX any](ctx context.Context, l life, g fixture[TX]) error {
	m := onceprom.New(onceprom.Config{})
	die := func(key, at string) {
		if key == killedKey && at == l.At {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
	}
	for i := range keys {
		key := fmt.Sprint("k", i)
		on := func(t once.EventType, at string) once.Observer {
			return observer(func(e once.Event) {
				if e.Type == t {
					die(key, at)
				}
			})
		}
		e := once.New(g.store, once.Config{Observer: once.Observers(on(once.EventClaimed, atClaim), on(once.EventFinished, afterCommit), m, on(once.EventFinished, afterCount))})
		res, err := once.Do(ctx, e, operation(key), func(ctx context.Context, tx TX) (string, error) {
			v, err := g.pay(key)(ctx, tx)
			die(key, inHandler)
			return v, err
		})
		if err != nil {
			return err
		}
		found, err := counters(m)
		if err != nil {
			return err
		}
		if err := json.NewEncoder(os.Stdout).Encode(told{key, res.Replayed, found}); err != nil {
			return err
		}
		die(key, atScrape)
	}
	return nil
}

type observer func(once.Event)

func (f observer) Observe(_ context.Context, e once.Event) { f(e) }

// lived runs a process to its end, and returns what it has told and its last scrape.
func (l life) lived(t *testing.T) (list []told, last map[string]float64) {
	t.Helper()
	lines, killed := harness.Start(t, l).End(t)
	if killed != (l.At != nowhere) {
		t.Fatalf("%q: killed %v", l.At, killed)
	}
	for _, line := range lines {
		var said told
		must(t, json.Unmarshal([]byte(line), &said))
		list, last = append(list, said), said.Counters
	}
	return list, last
}

// TestKilledProcessLosesNoCounters: a process is killed at each point of an operation, and its successor is given all
// operations again. What both have counted as executed, and one that the database holds and neither has counted, are the effects. The one is
// explained: the successor has replayed an operation of which the dead process had not told before the last scrape.
func TestKilledProcessLosesNoCounters(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	t.Run(harness.SQLite, func(t *testing.T) {
		testenv.Cell(t, testenv.InTest)
		t.Parallel()
		testKilled(t, func(t *testing.T) (fixture[*sql.Tx], life) {
			d := harness.Migrated(t, harness.SQLite, migrations, effects)
			return onSQLOf(t, d), life{Database: d}
		})
	})
	t.Run(harness.Pgx, func(t *testing.T) {
		testenv.Cell(t, testenv.InProve)
		t.Parallel()
		testKilled(t, func(t *testing.T) (fixture[pgx.Tx], life) {
			d := harness.Migrated(t, harness.Pgx, migrations, effects)
			return onPgxOf(t, d), life{Database: d}
		})
	})
}

func testKilled[TX any](t *testing.T, newFixture func(*testing.T) (fixture[TX], life)) {
	const executed, replayed = "operations_total{new_execution,applied,pay}", "operations_total{db_hit,applied,pay}"
	for at, uncounted := range map[string]float64{atClaim: 0, inHandler: 0, afterCommit: 1, afterCount: 1, atScrape: 0} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			g, first := newFixture(t)
			second := first
			first.At = at
			before, scraped := first.lived(t)
			after, counted := second.lived(t)

			told := map[string]bool{}
			for _, b := range before {
				told[b.Key] = true
			}
			unexplained, replays := 0.0, 0.0
			for _, a := range after {
				if a.Replayed {
					replays++
				}
				if a.Replayed && !told[a.Key] {
					unexplained++
				}
			}
			if unexplained != uncounted {
				t.Errorf("%v operations were executed and not counted, want %v", unexplained, uncounted)
			}
			if n := counted[replayed]; n != replays {
				t.Errorf("%v replays were counted of %v", n, replays)
			}
			if n := g.count(t, "select count(*) from effect"); n != keys || scraped[executed]+counted[executed]+unexplained != keys {
				t.Errorf("%d effects of %d operations; counted as executed: %v and %v, not counted %v", n, keys, scraped[executed], counted[executed], unexplained)
			}
		})
	}
}
