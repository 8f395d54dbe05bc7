package hold

import "time"

// clockWatch notices that the clock of a database was set: between two looks, more or less time has
// passed by it than by the clock of this process.
type clockWatch struct {
	now            time.Time // at the last look, by the clock of the database
	sent, answered time.Time // of the last look
}

// jumps notes a look. It reports whether the clock was set since the one before, by more than tolerance.
func (w *clockWatch) jumps(now, sent, answered time.Time, tolerance time.Duration) bool {
	before := *w
	*w = clockWatch{now, sent, answered}
	if before.now.IsZero() {
		return false
	}
	passed := now.Sub(before.now)
	return passed > answered.Sub(before.sent)+tolerance || passed < sent.Sub(before.answered)-tolerance
}
