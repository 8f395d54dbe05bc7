package saga

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store/storetest"
)

// TestEveryPointFails: whichever call of the store fails under a saga, not reached, refused, lost or applied later: the starter is told the truth,
// and the saga comes to its end there or on another node, with each effect once.
func TestEveryPointFails(t *testing.T) {
	testenv.Both(t)
	on(t, everyPointFails[pgx.Tx], everyPointFails[*sql.Tx])
}

func everyPointFails[TX any](t *testing.T, s system[TX]) {
	for _, s.no = range []bool{false, true} {
		points := 0
		for n := 1; ; n++ {
			key := fmt.Sprintf("point %d, no %t", n, s.no)
			if hits := failsAt(t, s, key, n); len(hits) == 0 {
				break
			}
			points++
		}
		testenv.Reportf(t, "%s, no %t: %d points", s.Kind, s.no, points)
		if points < 20 {
			t.Errorf("vacuous: %d points", points)
		}
	}
}

func failsAt[TX any](t *testing.T, s system[TX], key string, n int) []storetest.Point {
	t.Helper()
	faults := storetest.NewFaults[TX](s.db)
	d := s.definition()
	faults.Arm(storetest.Plan{Nth: []int{n}})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	value, err := saga.Do(ctx, s.runner(faults, d), d, idOf(key), key)
	hits := faults.Heal()
	if once.EffectOf(err) == once.EffectNotApplied && once.CodeOf(err) == once.CodeUnavailable {
		value, err = saga.Do(ctx, s.runner(s.db, d), d, idOf(key), key) // nothing was started
	}
	var f *once.Failure
	switch {
	case s.no && (!errors.As(err, &f) || f.Code != "no"):
		t.Errorf("%s, %v: %v", key, hits, err)
	case !s.no && (err != nil || value != "ship"):
		t.Errorf("%s, %v: %q, %v", key, hits, value, err)
	}
	s.judge(t, key)
	return hits
}
