package simulate

import (
	"errors"
	"time"

	"github.com/oncelib/once/retry"
)

// breaker is a [retry.Breaker] like the breakers of package retry/breaker, but in simulated time: libraries use the wall clock. It opens when half of the
// attempts of the last 10 s have failed, of at least 20, for 5 s, and closes if the first attempt after that succeeds.
type breaker struct {
	clock   *clock
	slices  [10]slice     // each counts the attempts of one second
	until   time.Duration // end of the open state; 0 if closed
	looking bool          // the probe is running that shows whether the breaker can close
	began   time.Duration // when the present state began
	era     int           // results of attempts that began in an earlier era are ignored
}

// slice counts attempts by the second in which they have begun.
type slice struct{ second, good, bad int }

var errOpen = errors.New("the breaker is open")

// Allow implements [retry.Breaker].
func (b *breaker) Allow() (done func(retry.Health), err error) {
	if b.until > 0 && (b.clock.now <= b.until || b.looking) {
		return nil, errOpen
	}
	b.looking = b.until > 0
	era, second := b.era, b.second()
	return func(o retry.Health) {
		switch {
		case b.era != era:
		case !b.looking:
			b.count(o, second)
		case o == retry.HealthBad:
			b.become(b.clock.now + 5*time.Second)
		case o == retry.HealthGood:
			b.become(0)
		default:
			b.looking = false
		}
	}, nil
}

func (b *breaker) second() int { return int((b.clock.now - b.began) / time.Second) }

func (b *breaker) count(o retry.Health, second int) {
	if o == retry.HealthUnknown || b.second()-second >= len(b.slices) {
		return
	}
	s := &b.slices[second%len(b.slices)]
	if s.second != second {
		*s = slice{second: second}
	}
	if o == retry.HealthGood {
		s.good++
		return
	}
	s.bad++
	good, bad := 0, 0
	for _, s := range b.slices {
		if b.second()-s.second < len(b.slices) {
			good, bad = good+s.good, bad+s.bad
		}
	}
	if good+bad >= 20 && 2*bad >= good+bad {
		b.become(b.clock.now + 5*time.Second)
	}
}

func (b *breaker) become(until time.Duration) {
	*b = breaker{clock: b.clock, until: until, began: b.clock.now, era: b.era + 1}
}
