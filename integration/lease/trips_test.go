package lease

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store/sqlplane"
)

// TestRoundTripsOfACall counts what a leased operation costs on the wire, with pgx: one call costs two commits and two round trips, and one round
// trip more for the look-up of an operation that may have been sent before. Each phase of database work adds one commit, and two round trips, or one
// if it is a batch.
func TestRoundTripsOfACall(t *testing.T) {
	t.Parallel()
	var wire faultnet.Wire
	var commits harness.Commits
	o := newDatabase(t, harness.Pgx)
	o.conns, o.dial, o.configure = 1, wire.DialContext, func(cfg *pgxpool.Config) {
		cfg.ConnConfig.Tracer = &commits
		cfg.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false } // a slow machine makes a connection look idle
	}
	db := o.mustOpen(t)
	defer db.close()
	p := program{db: db, ttl: patience} // no heartbeat
	e, _ := p.engine()
	call := func(ctx context.Context, r *lease.Run) (string, error) {
		return lease.Call(ctx, r, "charge", func(context.Context, string) (string, error) { return "paid", nil }, lease.CallPolicy{})
	}
	phases := func(n int) func(context.Context, *lease.Run) (string, error) {
		return func(ctx context.Context, r *lease.Run) (last string, err error) {
			for i := 0; i < n && err == nil; i++ {
				last, err = p.db.phase(ctx, r, fmt.Sprint("phase ", i), func(ctx context.Context, on sqlplane.Runner) (string, error) {
					_, err := on.Exec(ctx, p.db.text("insert into effect (operation, phase, value) values ('o', 'p', ?)", "v"))
					return "v", err
				})
			}
			return last, err
		}
	}
	batches := func(_ context.Context, r *lease.Run) (last string, err error) {
		for i := 0; i < 3 && err == nil; i++ {
			last, err = lease.InBatch(t.Context(), r, fmt.Sprint("phase ", i), func(b *once.Batch) (string, error) {
				write := p.db.text("insert into effect (operation, phase, value) values ('o', 'p', ?)", "v")
				b.Add(write)
				return "v", nil
			})
		}
		return last, err
	}
	n := 0
	for _, c := range []struct {
		name                       string
		handler                    func(context.Context, *lease.Run) (string, error)
		first                      bool
		trips, commits, statements int64
	}{
		{"one call, first attempt", call, true, 2, 2, 3},
		{"one call, with the look-up", call, false, 3, 2, 4},
		{"three phases, first attempt", phases(3), true, 3*2 + 1, 4, 17},
		{"three phases, with the look-up", phases(3), false, 3*2 + 2, 4, 18},
		{"three phases that are batches, first attempt", batches, true, 3 + 1, 4, 8},
		{"three phases that are batches, with the look-up", batches, false, 3 + 2, 4, 9},
	} {
		var trips, committed, statements int64
		for range 3 { // the first times fill pgx's statement cache
			n++
			op := operation(fmt.Sprint(n))
			if c.first {
				op.Attempt.Number = 1
			}
			before, committedBefore, statementsBefore := wire.Counts().RoundTrips, commits.Count(), commits.Statements()
			_, err := once.Do(t.Context(), e, op, c.handler)
			must(t, err)
			trips, committed, statements = wire.Counts().RoundTrips-before, commits.Count()-committedBefore, commits.Statements()-statementsBefore
		}
		if trips != c.trips || committed != c.commits || statements != c.statements {
			t.Errorf("%s: %d round trips, %d commits and %d statements, want %d, %d and %d", c.name, trips, committed, statements, c.trips, c.commits, c.statements)
		}
	}
}
