package hold

import "time"

// clockWatch detects that the clock of a database was set. Between two looks, this clock has then advanced more or less than the
// clock of this process.
type clockWatch struct {
	now            time.Time // the time of the database at the last look
	sent, answered time.Time // when the last look was sent and answered
}

// jumps records a look. It reports whether the clock was set since the previous look, by more than tolerance.
func (w *clockWatch) jumps(now, sent, answered time.Time, tolerance time.Duration) bool {
	before := *w
	*w = clockWatch{now, sent, answered}
	if before.now.IsZero() {
		return false
	}
	passed := now.Sub(before.now)
	return passed > answered.Sub(before.sent)+tolerance || passed < sent.Sub(before.answered)-tolerance
}
