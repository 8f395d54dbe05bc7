package integration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/internal/testenv"
)

func (n *nth) saw(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seen[codeOf(err)]++
}

// Observe implements [once.Observer].
func (n *nth) Observe(ctx context.Context, e once.Event) {
	n.met.Observe(ctx, e)
	if e.Err != nil {
		n.saw(e.Err)
	}
}

func (n *nth) note(told error) {
	what := "answer"
	if told != nil {
		what = fmt.Sprintf("%s, %v", once.CodeOf(told), once.EffectOf(told))
	}
	n.told[what]++
}

// codeOf is what a database calls an error.
func codeOf(err error) string {
	if state := sqlguard.SQLState(err); state != "" {
		return state
	}
	if code, ok := sqlguard.MySQLCode(err); ok {
		return fmt.Sprint(code)
	}
	if code, ok := sqlguard.SQLiteCode(err); ok {
		return fmt.Sprint("SQLite ", code)
	}
	if refused := (*sqlguard.RefusedError)(nil); errors.As(err, &refused) {
		return "refused"
	}
	return "other"
}

// report prints what was met, and fails if it was too little.
func (n *nth) report(floor int, codes ...string) {
	n.Helper()
	points := 0
	for _, p := range n.after {
		points += p
	}
	testenv.Count("points", points)
	testenv.Reportf(n.T, "%s: %d points in %v: %s\nfirst answers: %s\nerrors: %s\n%v", n.g.name, points, time.Since(n.start).Round(time.Millisecond), counts(n.after), counts(n.told), counts(n.seen), &n.met)
	if points < floor {
		n.Errorf("only %d points, at least %d are expected. %s", points, floor, rerun(n))
	}
	for _, code := range codes {
		if n.seen[code] == 0 {
			n.Errorf("vacuous: %s was never met. %s", code, rerun(n))
		}
	}
}

func counts(m map[string]int) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		list = append(list, fmt.Sprintf("%s: %d", name, m[name]))
	}
	return strings.Join(list, "; ")
}
