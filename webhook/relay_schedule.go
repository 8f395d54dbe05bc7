package webhook

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// defaultSchedule has the pauses after the first failure, the second failure, and so on.
var defaultSchedule = []time.Duration{
	5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

const (
	circuitFailures = 5 // after this many failures in a row, the relay tries only a single delivery from time to time
	circuitFirst    = time.Second
	circuitMost     = 5 * time.Minute
	mostRetryAfter  = 24 * time.Hour // the longest Retry-After that is respected
)

// pauseAfter returns the pause after this many failures of a delivery, and how many pauses of the schedule it
// replaces. The result 0 means that no attempt follows. A pause is up to a tenth shorter than the schedule
// says, so that deliveries which failed together are not tried together again. A pause is longer only if the
// endpoint has asked for it. A longer pause replaces as many pauses of the schedule as have its length
// together, so all pauses together are never longer than the schedule. Receivers rely on this when they keep
// IDs.
func pauseAfter(failures int, asked time.Duration, schedule []time.Duration) (pause time.Duration, steps int) {
	if failures > len(schedule) {
		return 0, 0
	}
	rest := schedule[failures-1:]
	if pause = rest[0] - time.Duration(rand.Float64()*float64(rest[0])/10); asked <= pause {
		return pause, 1
	}
	var sum time.Duration
	for _, p := range rest {
		if sum, steps = sum+p, steps+1; sum >= asked {
			return asked, steps
		}
	}
	return sum, steps
}

// circuitPause returns the pause of an endpoint after this many failures in a row. The result 0 means no pause.
func circuitPause(failures int) time.Duration {
	n := failures - circuitFailures
	switch {
	case n < 0:
		return 0
	case n > 16:
		return circuitMost
	}
	return min(circuitFirst<<n, circuitMost)
}

// retryAfter returns the pause that an answer asks for, or 0.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := h.Get("Retry-After")
	// Some servers send a fraction, although HTTP does not allow it.
	if seconds, err := strconv.ParseFloat(text, 64); err == nil && seconds > 0 {
		return time.Duration(min(seconds, mostRetryAfter.Seconds()) * float64(time.Second))
	}
	if at, err := http.ParseTime(text); err == nil {
		if theirs, err := http.ParseTime(h.Get("Date")); err == nil { // the clock of the endpoint may differ from the clock of this process
			now = theirs
		}
		return max(0, min(at.Sub(now), mostRetryAfter))
	}
	return 0
}
