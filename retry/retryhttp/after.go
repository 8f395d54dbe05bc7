package retryhttp

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// retryAfter returns the pause for which the headers h ask. The pause is in retry-after-ms, which some APIs send, or in Retry-After. Retry-After is a
// number of seconds, which may have a fraction, or a date in one of the three forms of HTTP. A date is compared with the time of the server, if h has
// the header Date. named is false if h has no pause, or only a malformed one. 0 seconds and a date in the past are valid pauses. A pause that is too
// long for a time.Duration becomes the longest time.Duration.
func retryAfter(h http.Header, now time.Time) (after time.Duration, named bool) {
	ms, named := decimal(field(h, headerAfterMs), time.Millisecond)
	// This header is more exact than Retry-After.
	if ms > 0 {
		return ms, true
	}
	value := field(h, headerAfter)
	if value == "" {
		return 0, named
	}
	if after, ok := decimal(value, time.Second); ok {
		return after, true
	}
	date, err := http.ParseTime(gmt(value))
	if err != nil {
		return 0, named
	}
	// The clock of the server may differ from the clock of this process.
	if theirs, err := http.ParseTime(gmt(h.Get("Date"))); err == nil {
		now = theirs
	}
	return max(0, date.Sub(now)), true
}

// gmt returns a date with the time zone name GMT, which HTTP requires.
func gmt(date string) string {
	for _, zone := range [...]string{" UTC", " +0000", " Z"} {
		if other, found := strings.CutSuffix(date, zone); found {
			return other + " GMT"
		}
	}
	return date
}

// seconds returns a whole number of seconds, or 0 if s is anything else.
func seconds(s string) time.Duration {
	if strings.Contains(s, ".") {
		return 0
	}
	d, _ := decimal(s, time.Second)
	return d
}

// decimal returns a number of units, which may have a fraction. The result ok reports whether s is such a number.
func decimal(s string, unit time.Duration) (d time.Duration, ok bool) {
	whole, fraction, _ := strings.Cut(s, ".")
	if whole == "" || strings.Trim(whole+fraction, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || n >= int64(math.MaxInt64/unit) {
		return math.MaxInt64, true
	}
	part, _ := strconv.ParseFloat("0."+fraction, 64) // an error is impossible, because the text has only digits
	return time.Duration(n)*unit + time.Duration(part*float64(unit)), true
}
