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
	circuitFailures = 5 // in a row, after which an endpoint is tried with one delivery now and then
	circuitFirst    = time.Second
	circuitMost     = 5 * time.Minute
	mostRetryAfter  = 24 * time.Hour // that one delivery is kept for, however long the endpoint asks
)

// pauseAfter returns the pause after so many failures of a delivery, and false if it has run out. Pauses are shorter by up to a tenth, so that
// what has failed at one moment does not come back at one moment, and never longer: receivers keep ids for as long as the schedule says.
func pauseAfter(failures int, schedule []time.Duration) (time.Duration, bool) {
	if failures > len(schedule) {
		return 0, false
	}
	p := schedule[failures-1]
	return p - time.Duration(rand.Float64()*float64(p)/10), true
}

// circuitPause is how long an endpoint is left alone after so many failures in a row. 0: it is not.
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

// retryAfter returns for how long an answer asks to be left alone.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := h.Get("Retry-After")
	if seconds, err := strconv.ParseFloat(text, 64); err == nil && seconds > 0 {
		return time.Duration(min(seconds, mostRetryAfter.Seconds()) * float64(time.Second))
	}
	if at, err := http.ParseTime(text); err == nil {
		if theirs, err := http.ParseTime(h.Get("Date")); err == nil { // their clock may be another one
			now = theirs
		}
		return max(0, min(at.Sub(now), mostRetryAfter))
	}
	return 0
}
