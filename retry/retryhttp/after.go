package retryhttp

import (
	"math"
	"net/http"
	"strconv"
	"time"
)

// retryAfter returns for how long h asks to be left alone: Retry-After in seconds or as
// a date in one of its three forms. A date is compared with the server's own clock if
// there is one in h. 0: it does not ask, or not for anything that can be understood. A
// time that is too long to be expressed is the longest one.
func retryAfter(h http.Header, now time.Time) time.Duration {
	value := field(h, headerAfter)
	if value == "" || digit(value[0]) {
		return seconds(value)
	}
	date, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	if theirs, err := http.ParseTime(h.Get("Date")); err == nil {
		now = theirs
	}
	return max(0, date.Sub(now))
}

// seconds returns a number of seconds, 0 if s is not one.
func seconds(s string) time.Duration {
	for i := range len(s) {
		if !digit(s[i]) {
			return 0
		}
	}
	if s == "" {
		return 0
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n > int64(math.MaxInt64/time.Second) {
		return math.MaxInt64
	}
	return time.Duration(n) * time.Second
}

func digit(c byte) bool { return '0' <= c && c <= '9' }
