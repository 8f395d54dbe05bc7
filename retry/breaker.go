package retry

import (
	"context"
	"errors"
)

// Breaker prevents attempts while a destination is down. It has two parts: Allow, and the function that Allow returns, which gets the outcome of the
// attempt.
//
// gobreaker's TwoStepCircuitBreaker has this shape already, with another type for the outcome; failsafe-go's CircuitBreaker maps onto it with
// TryAcquirePermit, RecordSuccess and RecordFailure, and one function for all calls.
type Breaker interface {
	// Allow returns an error if no attempt may be made now. Otherwise done must be called exactly once when the attempt is over, from any goroutine.
	Allow() (done func(Health), err error)
}

// Health says what an attempt proves about the health of the destination.
type Health uint8

const (
	HealthGood    Health = iota // it has answered, even if it has refused
	HealthBad                   // it has failed, or is overloaded
	HealthUnknown               // the caller has given up before an answer
)

// outcome is the Health for err, of an attempt for a caller with ctx.
func outcome(ctx context.Context, err error) Health {
	if err == nil {
		return HealthGood
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		// The caller has given up, which says nothing about the service.
		return HealthUnknown
	}
	// A service that refuses has answered.
	if c, _ := Classify(err); c == ClassFinal || c == ClassInFlight {
		return HealthGood
	}
	return HealthBad
}
