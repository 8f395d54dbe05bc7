// Package breaker is a circuit breaker for package retry: a [gobreaker] that gets the outcome of each attempt.
//
//	client := &http.Client{Transport: &retryhttp.Transport{
//		Breaker: breaker.ByHost(gobreaker.Settings{}),
//	}}
//
// While a destination is down, a breaker saves callers the wait, and the destination the calls. It does not replace the budget of package retry,
// which keeps the number of retries in proportion also while the breaker is closed.
//
// [gobreaker]: https://github.com/sony/gobreaker
package breaker

import (
	"errors"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/oncelib/once/retry"
)

// Breaker is a [retry.Breaker].
type Breaker struct {
	steps *gobreaker.TwoStepCircuitBreaker[struct{}]
}

// New returns a closed breaker. By default it opens when half of the attempts of the last 10 s have failed, of at least 20; it is open for 5 s, and
// then lets one attempt through as a probe. IsSuccessful and IsExcluded are ignored: [retry.Health] says whether an attempt counts as a failure, and
// an attempt that its caller has abandoned is not counted.
//
// OnStateChange is called under the lock of the breaker, which it must not use.
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
	errAbandoned = errors.New("breaker: abandoned")
	errUnhealthy = errors.New("breaker: unhealthy")
)

// Allow implements [retry.Breaker]. The error is gobreaker's.
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

// State returns whether the breaker is closed, open or half-open.
func (b *Breaker) State() gobreaker.State { return b.steps.State() }
