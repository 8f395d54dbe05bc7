package saga

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/gauge"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/base/gaugename"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/upkeep"
)

// TestGaugesCountDueAndStuckSagas: sagas that are due, that are stuck and that are behind their pivot are counted, with their ages, and no others. A stuck saga is an
// operation whose outcome is unknown: the alert OnceUnknownOutcomes fires.
func TestGaugesCountDueAndStuckSagas(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testGauges[pgx.Tx], testGauges[*sql.Tx])
}

func testGauges[TX any](t *testing.T, s system[TX]) {
	backlog, _ := store.As[upkeep.Backlogger](s.db)
	want := func(when string, due, stuck, behind, unknown, minutes float64) {
		t.Helper()
		got := map[string]float64{}
		for _, source := range []gauge.Source{saga.Gauges(s.db), gauge.Operations(backlog)} {
			values, err := source.Gauges(t.Context())
			must(t, err)
			for _, v := range values {
				got[v.Name] = v.Number
			}
		}
		for name, n := range map[string]float64{gaugename.SagasDue: due, gaugename.SagasStuck: stuck, gaugename.SagasBehindPivot: behind, gaugename.UnknownOperations: unknown} {
			if v, ok := got[name]; !ok || v != n {
				t.Errorf("%s: %s is %v (there: %t), want %v", when, name, v, ok, n)
			}
		}
		for name, n := range map[string]float64{gaugename.SagasDueOldestAge: minutes * 60, gaugename.SagasBehindPivotOldestAge: minutes * 3600} {
			if v, ok := got[name]; !ok || v < n || v > n+1800 || n == 0 && v != 0 { // the test takes some time
				t.Errorf("%s: %s is %v (there: %t), want %v", when, name, v, ok, n)
			}
		}
	}
	want("empty", 0, 0, 0, 0, 0)

	pivot := saga.Tx("pivot", func(_ context.Context, _ TX, in string) (string, error) { return in, nil }).Pivot()
	rest := saga.Tx("rest", func(_ context.Context, _ TX, in string) (string, error) {
		switch in {
		case "stuck":
			return "", &once.Failure{Code: "no"}
		case "waiting":
			return "", saga.Again(time.Hour)
		}
		return in, nil
	})
	def := saga.New("order", func(ctx saga.Context, in string) (string, error) {
		if _, err := pivot.Do(ctx, in); err != nil {
			return "", err
		}
		return rest.Do(ctx, in)
	}, pivot, rest)
	start := func(r *saga.Runner[TX], in string) {
		t.Helper()
		tx, commit, err := s.begin(t.Context())
		must(t, err)
		_, err = saga.Start(t.Context(), r, tx, def, idOf(in), in)
		must(t, errors.Join(err, commit()))
	}
	r := s.runner(s.db, def)
	stop := runs(t, r)
	for _, state := range []string{"stuck", "waiting", "completed"} {
		start(r, state)
		harness.Until(t, func() error {
			if st, err := r.Status(t.Context(), idOf(state)); err != nil || st.State != state || state == "waiting" && st.Pivot == "" {
				return fmt.Errorf("%s: %+v, %w", state, st, err)
			}
			return nil
		})
	}
	stop()
	start(r, "due")
	harness.Exec(t, s.db, "update once_saga_due set due_at = AGO(?) where KEY = 'due'", int64(60_000_000))
	harness.Exec(t, s.db, "update once_operation set since = AGO(?) where KEY = 'waiting'", int64(3600_000_000))
	want("started", 1, 1, 2, 1, 1)
}
