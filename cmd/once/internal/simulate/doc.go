// Package simulate simulates clients that retry, and a service that fails for a while. The clients decide with the code that runs in production:
// [retry.Policy], [retry.Budget] and the interface [retry.Breaker]. A service that sheds load uses the queue of package limit. Waiting, sending and
// serving are events in simulated time.
//
// The same scenario, policy and seed give the same result, to the last digit.
package simulate
