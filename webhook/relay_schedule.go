package webhook

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// defaultSchedule are the pauses after the first failure, the second one, and so on.
var defaultSchedule = []time.Duration{
	5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

const (
	circuitFailures = 5 // in a row; after them only a single delivery is tried from time to time
	circuitFirst    = time.Second
	circuitMost     = 5 * time.Minute
	mostRetryAfter  = 24 * time.Hour // the longest Retry-After that is respected
)

// pauseAfter returns the pause after so many failures of a delivery, and how many pauses of the schedule it takes the place of; 0 means the delivery
// has run out. Pauses are shorter by up to a tenth, so that deliveries that failed together are not tried again together. A pause is longer only if the
// endpoint has asked for it, and then takes the place of as many pauses as add up to it. So all pauses together are never longer than the schedule:
// receivers keep ids for as long as the schedule says.
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

// circuitPause returns the pause of an endpoint after so many failures in a row. 0 means no pause.
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

// retryAfter returns the pause that an answer asks for.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := h.Get("Retry-After")
	if seconds, err := strconv.ParseFloat(text, 64); err == nil && seconds > 0 {
		return time.Duration(min(seconds, mostRetryAfter.Seconds()) * float64(time.Second))
	}
	if at, err := http.ParseTime(text); err == nil {
		if theirs, err := http.ParseTime(h.Get("Date")); err == nil { // the clock of the endpoint may differ from ours
			now = theirs
		}
		return max(0, min(at.Sub(now), mostRetryAfter))
	}
	return 0
}
