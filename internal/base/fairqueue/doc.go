// Package fairqueue decides who is served now, who waits for his turn, and who is sent away
// and when he should come back. It has neither a clock nor a lock: the time comes from
// the caller, who calls it from one goroutine at a time. So a server runs it under a
// mutex, and a simulation runs the same decisions in a time of its own.
//
// Time is a duration since any moment that stays the same.
package fairqueue
