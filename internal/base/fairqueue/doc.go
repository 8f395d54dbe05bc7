// Package fairqueue decides which request is served now, which request waits, and which request is refused. For a refused
// request it also says when the caller should try again. The package has no clock and no lock: the caller passes the time,
// and only one goroutine may use a queue at a time. So a server uses a queue under a mutex, and a simulation uses the same
// decisions with simulated time.
//
// A time is a duration since a fixed moment.
package fairqueue
