package main

import (
	"context"
	"errors"
	"testing"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/oncelib/once/retry"
	"github.com/sony/gobreaker/v2"
)

var errDown = errors.New("down")

// gobreaker's two steps are those of retry.Breaker.
type goBreaker struct {
	*gobreaker.TwoStepCircuitBreaker[any]
}

var errAbandoned = errors.New("abandoned")

func (b goBreaker) Allow() (func(retry.Health), error) {
	done, err := b.TwoStepCircuitBreaker.Allow()
	if err != nil {
		return nil, err
	}
	return func(o retry.Health) {
		done(map[retry.Health]error{retry.HealthBad: errDown, retry.HealthUnknown: errAbandoned}[o])
	}, nil
}

// failsafe-go's breaker knows of no attempt in particular: one function serves them all.
type failsafeBreaker struct {
	circuitbreaker.CircuitBreaker[any]
}

func (b failsafeBreaker) Allow() (func(retry.Health), error) {
	if !b.TryAcquirePermit() {
		return nil, circuitbreaker.ErrOpen
	}
	return b.done, nil
}

func (b failsafeBreaker) done(o retry.Health) {
	if o == retry.HealthBad {
		b.RecordFailure()
		return
	}
	b.RecordSuccess() // it has no word for an attempt that was abandoned
}

func TestBreakersOpenAfterTwoFailures(t *testing.T) {
	for name, b := range map[string]retry.Breaker{
		"gobreaker": goBreaker{gobreaker.NewTwoStepCircuitBreaker[any](gobreaker.Settings{
			ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= 2 },
			IsExcluded:  func(err error) bool { return errors.Is(err, errAbandoned) },
		})},
		"failsafe-go": failsafeBreaker{circuitbreaker.NewBuilder[any]().WithFailureThreshold(2).Build()},
	} {
		calls := 0
		err := retry.Do(t.Context(), &retry.Policy{Base: -1, Breaker: b, Budget: &retry.Budget{}}, func(context.Context, int) error {
			calls++
			return errDown
		})
		var e *retry.Error
		if !errors.As(err, &e) || e.Reason != retry.ReasonOpen || calls != 2 || !errors.Is(err, errDown) {
			t.Errorf("%s: %v after %d calls", name, err, calls)
		}
	}
}
