// Package retry runs a function until it succeeds, until the same again would be
// pointless, or until retrying would do more harm than good. Whatever ends it, the last
// failure is in the error.
//
//	err := retry.Do(ctx, nil, func(ctx context.Context, attempt int) error {
//		return charge(ctx, order)
//	})
//
// The function must be safe to repeat: by nature, or because all attempts carry one
// idempotency key. If it is neither, set [Policy.Unsafe].
//
// A nil or zero [Policy] means: five attempts, pauses that are random below 100 ms, 200
// ms, 400 ms, ... up to 2 s, and a budget that lets retries be a tenth of the successes.
// No retry begins, or goes on, more than 10 s after the first failure; package retryhttp
// counts it from the beginning. The budget is on because pauses alone do not end a storm:
// if all callers retry what an overloaded service refuses, it stays overloaded. For the
// same reason one timeout among successes is retried, and one among timeouts is not: see
// [Budget].
//
// # What is retried
//
// A failure is classified by what it can do, found in its chain of causes:
//
//	Retryable() bool             false: [ClassFinal]; true: [ClassUnknown], which is retried
//	RetryAfter() time.Duration   [ClassThrottled]; the next attempt is not earlier
//	and RateLimited() bool       true: [ClassRateLimited] instead, if the time is not 0
//	RetryClass() (class string,  the class of this name; a *once.Error has it, by its code and effect.
//	  after time.Duration,         The next attempt is not earlier than after
//	  causeFirst bool)             true: what the cause says, if it says something, is believed instead
//
// The outermost error that says something is believed. One that says nothing is
// [ClassUnknown]: it may have taken effect. [Permanent], [After] and [AfterLimit] give an error these
// abilities.
//
// # HTTP
//
// Package retryhttp does this for HTTP requests.
package retry
