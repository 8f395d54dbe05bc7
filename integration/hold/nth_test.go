package hold

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/sql/hold"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store/sqlplane"
)

// TestNthStatementFails: the N-th statement of a node fails, or is applied and its answer is lost, for every N of a
// start and of what follows when another node comes. The parts are spread evenly all the same, and the other
// node gets them when the first one leaves, also if the statement by which it leaves fails.
func TestNthStatementFails(t *testing.T) {
	testenv.Prove(t)
	on(t, func(t *testing.T, name string) {
		db, _ := newDB(t, name)
		step := 5
		if name == harness.Pgx {
			step = 1
		}
		room := make(chan struct{}, 16) // so many points run at once
		for _, after := range []bool{false, true} {
			for at := 1; at <= 20; at += step {
				t.Run(fmt.Sprintf("%d/%t", at, after), func(t *testing.T) {
					t.Parallel()
					room <- struct{}{}
					defer func() { <-room }()
					visit(t, db, at, after)
				})
			}
		}
	})
}

// visit fails a statement, and the one by which the node leaves.
func visit(t *testing.T, db sqlplane.Database, at int, after bool) {
	t.Helper()
	var errs errorsOf
	cfg := hold.Config{Work: t.Name(), Parts: 5, TTL: 3 * ttl}
	g := &gate{Database: db, at: at, after: after}
	failing := cfg
	failing.Failed = errs.failed
	first := start(t, g, failing)
	harness.Until(t, func() error { return even(5, first) })
	second := start(t, db, cfg)
	harness.Until(t, func() error { return even(5, first, second) })
	harness.Until(t, func() error {
		if errs.count() == 0 {
			return errors.New("no error is told")
		}
		return nil
	})
	g.mu.Lock()
	g.at = g.count + 1
	first.cancel()
	g.mu.Unlock()
	first.end(t)
	harness.Until(t, func() error { return even(5, second) })
	if !slices.ContainsFunc(errs.list, func(err error) bool { return errors.Is(err, errInjected) }) || errs.count() < 2 {
		t.Errorf("told: %v", errs.list)
	}
}
