package home

import (
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/internal/testenv"
)

// TestMoveKilled: a move is killed before and after each of its statements and commits. The tenant then lives in one region or in none, where calls are
// refused with an error after which the same key may be sent again; the same move completes it, each key has taken effect once, and its account is whole.
func TestMoveKilled(t *testing.T) {
	testenv.Both(t)
	on(t, movesKilled[pgx.Tx], movesKilled[*sql.Tx])
}

func movesKilled[TX any](t *testing.T, s system[TX]) {
	const tenant = "acme"
	must(t, s.mover(nil).Move(t.Context(), tenant, "eu"))
	keys := []string{"first"}
	s.judge(t, tenant, "eu", keys...)
	nobody, killed := 0, 0
	for n, at := 1, "eu"; ; n++ {
		passed := 0
		for _, after := range []bool{false, true} {
			kill := &killer{n: n, after: after}
			to := map[string]string{"ap": "eu", "eu": "us", "us": "ap"}[at]
			err := s.mover(kill).Move(t.Context(), tenant, to)
			if kill.dead != errors.Is(err, errDead) || err != nil && !kill.dead {
				t.Fatal(kill, err)
			}
			if !kill.dead {
				passed++
			} else {
				killed++
			}
			owners := s.owners(t, tenant)
			if len(owners) > 1 {
				t.Fatalf("%v: owned by %q", kill, owners)
			}
			if len(owners) == 0 {
				nobody++
			}
			key := fmt.Sprint(kill)
			for _, r := range s {
				for _, k := range []string{key, "first"} {
					if _, err := r.pay(t.Context(), tenant, k); err != nil && !isRefused(err) {
						t.Errorf("%v: %s in %s: %v", kill, k, r.name, err)
					}
				}
			}
			must(t, s.mover(nil).Move(t.Context(), tenant, to))
			keys = append(keys, key)
			s.judge(t, tenant, to, key, "first")
			at = to
		}
		if passed == 2 {
			s.judge(t, tenant, at, keys...)
			break
		}
	}
	testenv.Reportf(t, "killed at %d points, at %d of them no region was the owner", killed, nobody)
	if killed < 30 || nobody < 10 {
		t.Errorf("vacuous: killed %d times, %d times without an owner", killed, nobody)
	}
}

// TestFirstMoveKilled: the first move of a new tenant is killed at each point. It never has two owners, and the same move completes it.
func TestFirstMoveKilled(t *testing.T) {
	testenv.Both(t)
	on(t, firstMovesKilled[pgx.Tx], firstMovesKilled[*sql.Tx])
}

func firstMovesKilled[TX any](t *testing.T, s system[TX]) {
	for _, to := range []string{"ap", "us"} {
		for n, passed := 1, 0; passed < 2; n++ {
			passed = 0
			for _, after := range []bool{false, true} {
				kill := &killer{n: n, after: after}
				tenant := fmt.Sprintf("new-%s-%d-%t", to, n, after)
				if err := s.mover(kill).Move(t.Context(), tenant, to); err == nil {
					passed++
				}
				if owners := s.owners(t, tenant); len(owners) > 1 {
					t.Fatalf("%v: owned by %q", kill, owners)
				}
				must(t, s.mover(nil).Move(t.Context(), tenant, to))
				s.judge(t, tenant, to, "a", "b")
			}
		}
	}
}
