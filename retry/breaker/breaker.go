// Package breaker is a circuit breaker for package retry. The package passes the outcome of each attempt to a circuit
// breaker of the library [gobreaker].
//
//	client := &http.Client{Transport: &retryhttp.Transport{
//		Breaker: breaker.ByHost(gobreaker.Settings{}),
//	}}
//
// While a destination is down, an open breaker refuses attempts at once: callers do not wait, and the destination gets fewer calls. A breaker does
// not replace the [retry.Budget]: while the breaker is closed (allows attempts), only the budget limits retries.
//
// [gobreaker]: https://github.com/sony/gobreaker
package breaker

import (
	"errors"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/oncelib/once/retry"
)

// Breaker is a circuit breaker for one destination. A Breaker implements [retry.Breaker].
type Breaker struct {
	steps *gobreaker.TwoStepCircuitBreaker[struct{}]
}

// New returns a closed breaker, which allows attempts. By default the breaker opens when at least 20 attempts were made in the last 10 s and at
// least half of these attempts have failed. The breaker stays open for 5 s, and then allows one attempt as a probe. New ignores
// settings.IsSuccessful and settings.IsExcluded, because [retry.Health] says whether an attempt counts as a failure. The breaker does not count
// an attempt if the caller gave up before an answer came.
//
// The breaker is locked while it calls the function settings.OnStateChange, so OnStateChange must not
// call methods of the breaker.
func New(settings gobreaker.Settings) *Breaker {
	if settings.Timeout <= 0 {
		settings.Timeout = 5 * time.Second
	}
	if settings.ReadyToTrip == nil {
		settings.ReadyToTrip = half
		if settings.Interval <= 0 {
			settings.Interval, settings.BucketPeriod = 10*time.Second, time.Second
		}
	}
	settings.IsSuccessful = func(err error) bool { return err == nil }
	settings.IsExcluded = func(err error) bool { return errors.Is(err, errAbandoned) }
	return &Breaker{gobreaker.NewTwoStepCircuitBreaker[struct{}](settings)}
}

func half(c gobreaker.Counts) bool {
	told := c.TotalSuccesses + c.TotalFailures
	return told >= 20 && 2*c.TotalFailures >= told
}

var (
	errAbandoned = errors.New("breaker: the attempt was abandoned before it had a result")
	errUnhealthy = errors.New("breaker: the attempt shows that the host is not healthy")
)

// Allow implements [retry.Breaker]. Allow returns the errors of gobreaker, such as
// gobreaker.ErrOpenState.
func (b *Breaker) Allow() (done func(retry.Health), err error) {
	tell, err := b.steps.Allow()
	if err != nil {
		return nil, err
	}
	return func(o retry.Health) { tell(errorOf(o)) }, nil
}

func errorOf(o retry.Health) error {
	switch o {
	case retry.HealthGood:
		return nil
	case retry.HealthUnknown:
		return errAbandoned
	case retry.HealthBad:
	}
	return errUnhealthy
}

// State returns the state of the breaker: closed, open or half-open.
func (b *Breaker) State() gobreaker.State { return b.steps.State() }
