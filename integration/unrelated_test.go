package integration

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
)

// TestUnrelatedKeysDoNotConflict: operations of different keys all commit at their first run, at
// every isolation level, if their handlers have nothing in common. New keys are neighbours
// in the index, of which PostgreSQL's SERIALIZABLE watches whole pages.
func TestUnrelatedKeysDoNotConflict(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	testenv.Need(t, "postgresql")
	harness.Each(t, []string{harness.Pgx, harness.Postgres}, func(t *testing.T, store string) {
		for _, c := range []struct{ name, database string }{
			{"", "read committed"},
			{"default level of the database: ", "serializable"},
		} {
			g := newTestDB(t, store)
			g.defaultLevel(t, c.database)
			all := append([]level{levels[2], {name: "default"}}, levels...)
			for i, l := range all { // the first one has an empty table
				if err := unrelated(t, g, l); err != nil {
					t.Errorf("%s%s: %v. %s", c.name, l.name, err, rerun(t))
				}
				if i == 0 {
					g.fill(t)
				}
			}
		}
	})
}

// defaultLevel is that of sessions that begin from now on.
func (g *testDB) defaultLevel(tb testing.TB, isolation string) {
	tb.Helper()
	_, err := g.db.ExecContext(tb.Context(), fmt.Sprintf(
		`do $$ begin execute format('alter database %%I set default_transaction_isolation = %%L', current_database(), '%s'); end $$`, isolation))
	if err != nil {
		tb.Fatal(err)
	}
}

// fill makes the index grow beyond one page.
func (g *testDB) fill(tb testing.TB) {
	tb.Helper()
	_, err := g.db.ExecContext(tb.Context(), `insert into once_operation (scope, key, claim, expires_at)
 select $1, '0' || n, '', now() + interval '1 day' from generate_series(1, 1000) n`, scope)
	if err != nil {
		tb.Fatal(err)
	}
}

// flowFirst is a first attempt of Do.
const flowFirst = "first attempt"

// unrelated runs several operations of each kind, all of which have begun before any of
// them commits.
func unrelated(t *testing.T, g *testDB, l level) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	flows := []string{flowDo, flowFirst, flowJoin, flowBatch}
	const each = 4
	s := g.open(t, setup{conns: each * len(flows)})
	defer s.Close()
	all := &assembly{missing: int64(each * len(flows)), complete: make(chan struct{})}
	var group sync.WaitGroup
	errs := make([]error, each*len(flows))
	for i := range errs {
		flow := flows[i%len(flows)]
		op := operation(once.NewKey())
		op.Isolation = l.is
		if flow == flowFirst {
			op.Attempt.Number = 1
		}
		runs := 0
		w := work{key: op.Key, attempt: "only", before: func() {
			if runs++; runs == 1 {
				all.wait(ctx)
			}
		}}
		do := map[string]func(context.Context, once.Operation, work) (answer, bool, error){
			flowDo: s.Do, flowFirst: s.Do, flowJoin: s.Join, flowBatch: s.Batch,
		}[flow]
		group.Go(func() {
			_, replayed, err := do(ctx, op, w)
			if err != nil || replayed || runs != 1 {
				errs[i] = fmt.Errorf("%s: %d runs, replayed: %t: %w", flow, runs, replayed, err)
			}
		})
	}
	group.Wait()
	if all.met.Load() != int64(len(errs)) {
		return fmt.Errorf("only %d operations were open at the same time: %w", all.met.Load(), joined(errs))
	}
	return joined(errs)
}

// joined is errors.Join with the errors in one line.
func joined(errs []error) error {
	var all []string
	for _, err := range errs {
		if err != nil {
			all = append(all, err.Error())
		}
	}
	if len(all) == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d failed: %s", len(all), len(errs), strings.Join(all, "; "))
}

// assembly lets its members wait until all of them have come.
type assembly struct {
	missing  int64
	met      atomic.Int64
	complete chan struct{}
}

func (a *assembly) wait(ctx context.Context) {
	if a.met.Add(1) == a.missing {
		close(a.complete)
	}
	select {
	case <-a.complete:
	case <-ctx.Done():
	}
}
