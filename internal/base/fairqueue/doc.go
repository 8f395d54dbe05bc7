// Package fairqueue decides which request is served now, which one waits for its turn, and which one is
// refused and when it should come back. It has neither a clock nor a lock: the caller passes the
// time, and calls it from one goroutine at a time. So a server runs it under a
// mutex, and a simulation runs the same decisions in a time of its own.
//
// Time is a duration since any moment that stays the same.
package fairqueue
