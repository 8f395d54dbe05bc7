package lazy

import (
	"math"
	"time"
)

// Moment is a time by the monotonic clock alone. To read that costs half of what
// [time.Now] does.
type Moment time.Duration

// Never comes after all other moments.
const Never = Moment(math.MaxInt64)

// epoch is what moments count from.
var epoch = time.Now()

// Now returns the present moment.
func Now() Moment { return Moment(time.Since(epoch)) }

// At returns the moment of t.
func At(t time.Time) Moment { return Moment(t.Sub(epoch)) }

// Add returns the moment d after m, or Never if there is none. d is not negative.
func (m Moment) Add(d time.Duration) Moment {
	if end := m + Moment(d); end >= m {
		return end
	}
	return Never
}

// Sub returns the time from n to m.
func (m Moment) Sub(n Moment) time.Duration { return time.Duration(m - n) }

// Over reports whether m has come.
func (m Moment) Over() bool { return m != Never && Now() >= m }

// time returns m as package context wants it. It needs the other clock because that may
// have been set since epoch.
func (m Moment) time() time.Time {
	t := time.Now()
	return t.Add(m.Sub(At(t)))
}
