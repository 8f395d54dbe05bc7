package retry

import (
	"context"
	"errors"
)

// Breaker keeps attempts away from what is down. It has two parts: Allow, and the
// function that it returns, which tells the breaker what has become of that attempt.
//
// gobreaker's TwoStepCircuitBreaker has this shape already, but for the type of what it
// is told; failsafe-go's CircuitBreaker maps onto it with TryAcquirePermit, RecordSuccess
// and RecordFailure, and one function for all calls.
type Breaker interface {
	// Allow returns an error if there is to be no attempt now. Otherwise done is called
	// exactly once when the attempt is over, from any goroutine.
	Allow() (done func(Health), err error)
}

// Health is what an attempt says about the health of the other side.
type Health uint8

const (
	HealthGood    Health = iota // it has answered, if only with a refusal of its own
	HealthBad                   // it has failed, or has too much to do
	HealthUnknown               // the caller has given up first: nothing is known
)

// outcome is what err, of an attempt made for a caller with ctx, tells a breaker.
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
