package hold

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/sql/hold"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store/sqlplane"
)

// startServer starts a server, and opens a migrated database on it.
func startServer(t *testing.T, kind string, clock bool) (harness.Server, sqlplane.Database) {
	t.Helper()
	s, d := harness.NewServer(t, kind, clock)
	must(t, d.Migrate(t.Context(), migrations))
	return s, open(t, d, 8)
}

// TestOutageEndsHolding: while the database is away, nodes hold nothing any more, by their own clocks. When it is
// back, they hold parts again.
func TestOutageEndsHolding(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	for _, name := range []string{harness.Pgx, harness.Postgres, harness.MariaDB} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, db := startServer(t, name, false)
			var errs errorsOf
			first := start(t, db, hold.Config{TTL: 3 * ttl, Failed: errs.failed})
			second := start(t, db, hold.Config{TTL: 3 * ttl, Failed: errs.failed})
			harness.Until(t, func() error { return even(11, first, second) })
			used, done := first.Use(all(11))
			defer done()
			must(t, s.Kill())
			harness.Until(t, func() error {
				if n := len(first.parts()) + len(second.parts()); n > 0 {
					return fmt.Errorf("%d parts are held without a database", n)
				}
				return nil
			})
			harness.Until(t, func() error {
				if errs.count() == 0 {
					return errors.New("no node has told that the database is away")
				}
				return nil
			})
			must(t, s.Restart(t.Context()))
			done()
			harness.Until(t, func() error { return even(11, first, second) })
			var after []row
			harness.Until(t, func() (err error) { // a pool may have connections that the kill has broken
				after, err = readRows(t.Context(), db)
				return err
			})
			for _, before := range used { // no fence is used again
				for _, now := range after {
					if now.Number == before.Number && now.Fence < before.Fence {
						t.Errorf("the fence of part %d was %d and is %d", now.Number, before.Fence, now.Fence)
					}
				}
			}
		})
	}
}

// steps of the clock, and back.
var steps = []time.Duration{time.Hour, 0, -time.Hour, 0}

// TestClockTakeover: the clock of the database is set by an hour, ahead and back. A node that died before is taken over
// all the same, and comes back when it lives on.
func TestClockTakeover(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	for _, name := range []string{harness.Pgx, harness.MariaDB} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, db := startServer(t, name, true)
			for _, ahead := range steps {
				first := start(t, db, hold.Config{TTL: 3 * ttl})
				g := &gate{Database: db}
				dead := start(t, g, hold.Config{TTL: 3 * ttl})
				harness.Until(t, func() error { return even(11, first, dead) })
				g.cut()
				must(t, s.SetClock(ahead))
				harness.Until(t, func() error { return even(11, first) })
				g.mend()
				harness.Until(t, func() error { return even(11, first, dead) })
				first.end(t)
				dead.end(t)
			}
		})
	}
}

// TestClockKeeps: the clock of the database is set by an hour, and the TTL is shorter. Nodes that live keep their parts.
func TestClockKeeps(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	for _, name := range []string{harness.Pgx, harness.MariaDB} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, db := startServer(t, name, true)
			gates := []*gate{{Database: db}, {Database: db}}
			var running []*node
			for _, g := range gates { // they look each second, and a busy machine loses no part
				running = append(running, start(t, g, hold.Config{TTL: 10 * time.Minute}))
			}
			harness.Until(t, func() error { return even(11, running...) })
			before := rows(t, db)
			for _, ahead := range steps {
				must(t, s.SetClock(ahead))
				from := []int{gates[0].statements(), gates[1].statements()}
				harness.Until(t, func() error {
					for i, g := range gates {
						if n := g.statements() - from[i]; n < 4 {
							return fmt.Errorf("%d statements", n)
						}
					}
					return nil
				})
				if now := rows(t, db); !slices.Equal(now, before) {
					t.Fatalf("set to %v: %v were %v", ahead, now, before)
				}
			}
		})
	}
}
