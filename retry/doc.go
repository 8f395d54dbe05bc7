// Package retry runs a function until it succeeds, until another attempt would be pointless, or until retries would add load to a service that is
// down. The returned error always contains the last failure.
//
//	err := retry.Do(ctx, nil, func(ctx context.Context, attempt int) error {
//		return charge(ctx, order)
//	})
//
// The function must be safe to repeat: either its work is harmless to repeat, or all attempts have the same idempotency key. If the
// function is not safe to repeat, set [Policy.Unsafe].
//
// A nil or zero [Policy] means: five attempts; random pauses of at most 100 ms, 200 ms, 400 ms, ... up to 2 s; and a budget that limits retries to a
// tenth of the successes. Retries end 10 s after the first failure; in package retryhttp these 10 s begin with the call. Retries are limited by
// default because pauses alone do not end an overload: if all callers retry the requests that an overloaded service refuses, the service stays
// overloaded. So that retries do not prolong an overload, a request that timed out is retried while other requests succeed, and is not retried while
// other requests time out too: see [Budget].
//
// # Which failures are retried
//
// Each failure has a class. The class follows from the methods of the failure's error, or from the methods of another
// error in the chain of this error:
//
//	Retryable() bool             false: [ClassFinal]; true: [ClassUnknown], which is retried
//	RetryAfter() time.Duration   [ClassThrottled]; the next attempt is not earlier
//	and RateLimited() bool       true: [ClassRateLimited] instead, if the time is not 0
//	RetryClass() (class string,  the class of this name; a *once.Error has this method.
//	  after time.Duration,         The next attempt is not earlier than after
//	  causeFirst bool)             true: the class of the cause, if it has one, takes precedence
//
// If several errors in a chain have one of the methods Retryable, RetryAfter and RetryClass, the outermost of these errors decides the
// class. If no error in a chain has one of the methods Retryable, RetryAfter and RetryClass, the class is [ClassUnknown]: the attempt may
// have taken effect. The functions [Permanent], [After] and [AfterLimit] return errors that have methods for a class.
//
// # HTTP
//
// Package retryhttp applies the rules of package retry to HTTP requests.
package retry
