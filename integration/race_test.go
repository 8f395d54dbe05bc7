package integration

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
)

// level is an isolation level, by name.
type level struct {
	name string
	is   store.Isolation
}

var levels = []level{
	{"READ COMMITTED", store.ReadCommitted},
	{"REPEATABLE READ", store.RepeatableRead},
	{"SERIALIZABLE", store.Serializable},
}

// TestRaceOfTwoProcesses lets two processes' worth of engines meet at each key. Whatever the
// isolation, one executes and the other is told that it is in flight, or gets the
// first one's answer: a collision of keys is never an error of another kind.
func TestRaceOfTwoProcesses(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	harness.Each(t, harness.Servers, func(t *testing.T, name string) {
		g := newTestDB(t, name)
		at := levels
		if name == harness.SQLite {
			at = []level{{"SERIALIZABLE, its only one", store.DefaultIsolation}}
		}
		for _, l := range at {
			race(t, g, l)
		}
	})
}

func race(t *testing.T, g *testDB, l level) {
	ctx, cancel := context.WithTimeout(t.Context(), stormPatience)
	defer cancel()
	var taken, inFlight, replayed atomic.Int64
	var racers [2]system
	for i := range racers {
		racers[i] = g.open(t, setup{conns: 2, hook: func(place string) {
			if place == "taken" {
				taken.Add(1)
			}
		}})
	}
	rounds := scale(100, 2000)
	for round := range rounds {
		op := operation(fmt.Sprintf("race-%d-%d", l.is, round))
		op.Isolation = l.is
		if round%2 == 1 { // neither looks first: the primary key decides
			op.Attempt.Number = 1
		}
		start := make(chan struct{})
		var group sync.WaitGroup
		var answers [2]answer
		for i, s := range racers {
			group.Go(func() {
				<-start
				got, again, err := s.Do(ctx, op, work{key: op.Key, attempt: fmt.Sprintf("racer%d", i)})
				if once.CodeOf(err) == once.CodeInFlight {
					inFlight.Add(1)
					waits := op
					waits.Wait = patience
					got, again, err = s.Do(ctx, waits, work{key: op.Key, attempt: fmt.Sprintf("racer%d", i)})
				}
				if err != nil {
					t.Errorf("%s, round %d: %v. %s", l.name, round, err, rerun(t))
				}
				if again {
					replayed.Add(1)
				}
				answers[i] = got
			})
		}
		close(start)
		group.Wait()
		if t.Failed() {
			return
		}
		s, err := g.state(ctx, op.Key)
		if err != nil || answers[0] != answers[1] || s != executed(answers[0].Attempt) {
			t.Fatalf("%s, round %d: %+v, state %+v, %v. %s", l.name, round, answers, s, err, rerun(t))
		}
	}
	testenv.Count("rounds", rounds)
	testenv.Reportf(t, "%s at %s: %d rounds, %d in flight, %d taken at the primary key", g.name, l.name, rounds, inFlight.Load(), taken.Load())
	if n := replayed.Load(); n != int64(rounds) {
		t.Errorf("%s: %d replays in %d rounds, want one each. %s", l.name, n, rounds, rerun(t))
	}
}
