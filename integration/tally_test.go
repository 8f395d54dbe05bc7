package integration

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// tally says what a siege has met.
type tally struct {
	points map[string]int // killed at, by mode and flow

	acknowledged int // killed after the answer was given
	applied      int // killed after the commit and before the answer was given
	nothing      int // killed before the commit
	waited       int // the successor was told that the dead one's operation is in flight
}

func (t *tally) count(p *point) {
	if t.points == nil {
		t.points = map[string]int{}
	}
	t.points[p.mode+" "+p.flow]++
}

// note looks at who executed what was killed.
func (t *tally) note(flow string, acked bool, attempt string) {
	switch {
	case flow == flowReplay:
	case acked:
		t.acknowledged++
	case strings.HasPrefix(attempt, byVictim):
		t.applied++
	default:
		t.nothing++
	}
}

func (t *tally) total() (n int) {
	for _, points := range t.points {
		n += points
	}
	return n
}

// vacuous says what was not met although it must be.
func (t *tally) vacuous(floor int) error {
	switch {
	case t.total() < floor:
		return fmt.Errorf("only %d points, at least %d are expected", t.total(), floor)
	case t.acknowledged == 0, t.applied == 0, t.nothing == 0:
		return fmt.Errorf("a run must meet all of: %d acknowledged, %d applied and not acknowledged, %d not applied", t.acknowledged, t.applied, t.nothing)
	}
	return nil
}

func (t *tally) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%d points: acknowledged %d, applied but not acknowledged %d, not applied %d", t.total(), t.acknowledged, t.applied, t.nothing)
	if t.waited > 0 {
		fmt.Fprintf(&s, ", in flight by the dead %d", t.waited)
	}
	for _, name := range slices.Sorted(maps.Keys(t.points)) {
		fmt.Fprintf(&s, "\n  %-20s %5d", name, t.points[name])
	}
	return s.String()
}

func (t *tally) add(other *tally) {
	for name, n := range other.points {
		t.points[name] += n
	}
	t.acknowledged += other.acknowledged
	t.applied += other.applied
	t.nothing += other.nothing
	t.waited += other.waited
}
