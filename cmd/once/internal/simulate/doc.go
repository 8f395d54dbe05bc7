// Package simulate lets clients that retry meet a service that stumbles, in a time of
// its own. What the clients decide is decided by the code that production runs:
// [retry.Policy], [retry.Budget], the seam of [retry.Breaker], and for a service that
// sheds load the queue of package limit. Waiting, sending and serving are events here.
//
// The same scenario, policy and seed give the same result, to the last digit.
package simulate
