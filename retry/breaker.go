package retry

import (
	"context"
	"errors"
)

// Breaker prevents attempts while a destination is down. Before an attempt, the caller calls Allow. After the attempt, the caller calls the function
// that Allow has returned, with the outcome of the attempt.
//
// The type TwoStepCircuitBreaker of the library gobreaker has almost the same methods as a Breaker, but uses another type for the outcome of an
// attempt. Package retry/breaker converts a TwoStepCircuitBreaker to a Breaker. For the type CircuitBreaker of the library failsafe-go, write a
// method Allow that calls TryAcquirePermit, and that returns a function which calls RecordSuccess or RecordFailure.
type Breaker interface {
	// Allow returns an error if the breaker allows no attempt now. If err is nil, the caller must call done exactly once after the attempt. Any
	// goroutine may call done.
	Allow() (done func(Health), err error)
}

// Health says what an attempt proves about the health of the destination.
type Health uint8

const (
	HealthGood    Health = iota // the destination has answered, even if its answer was a refusal
	HealthBad                   // the destination has failed, or is overloaded
	HealthUnknown               // the caller gave up before an answer came
)

// outcome returns the health of the destination that an attempt with the context ctx and the result err proves.
func outcome(ctx context.Context, err error) Health {
	if err == nil {
		return HealthGood
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		// The caller has given up, and this says nothing about the destination.
		return HealthUnknown
	}
	// A destination that has refused the request has answered, so it is healthy.
	if c, _ := Classify(err); c == ClassFinal || c == ClassInFlight {
		return HealthGood
	}
	return HealthBad
}
