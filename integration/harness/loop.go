package harness

import (
	"testing"
	"time"

	"github.com/oncelib/once/internal/testenv"
)

// Loop has strike break what it tests at the N-th point, N = 1, 2, ..., until a run comes to its end before that point:
// a process that is killed, a call that fails, an answer that is lost. strike judges what was left, and reports whether
// the point was reached. A loop with fewer than least points has not reached what it is for, and fails.
func Loop(tb testing.TB, least int, strike func(at int) (struck bool)) {
	tb.Helper()
	points := 0
	for strike(points+1) && !tb.Failed() {
		points++
	}
	testenv.Count("points", points)
	if points < least && !tb.Failed() {
		tb.Errorf("vacuous: %d points were met, at least %d are expected", points, least)
	}
}

// Until waits until fn returns nil.
func Until(tb testing.TB, fn func() error) {
	tb.Helper()
	over := time.After(patience)
	for {
		err := fn()
		if err == nil {
			return
		}
		select {
		case <-over:
			tb.Fatal(err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
