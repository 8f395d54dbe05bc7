package retryhttp

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// retryAfter returns for how long h asks to be left alone: retry-after-ms, which some APIs
// send as well, or Retry-After in seconds, which may have fractions, or as a date in one of
// its three forms. A date is compared with the server's own clock if there is one in h. 0:
// it does not ask, or not for anything that can be understood. A time that is too long to
// be expressed is the longest one.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms := decimal(field(h, headerAfterMs), time.Millisecond); ms > 0 {
		return ms
	}
	value := field(h, headerAfter)
	if value == "" || digit(value[0]) {
		return decimal(value, time.Second)
	}
	date, err := http.ParseTime(gmt(value))
	if err != nil {
		return 0
	}
	if theirs, err := http.ParseTime(gmt(h.Get("Date"))); err == nil {
		now = theirs
	}
	return max(0, date.Sub(now))
}

// gmt returns a date with the name of its zone that HTTP asks for.
func gmt(date string) string {
	for _, zone := range [...]string{" UTC", " +0000", " Z"} {
		if other, found := strings.CutSuffix(date, zone); found {
			return other + " GMT"
		}
	}
	return date
}

// seconds returns a number of seconds without a fraction, 0 if s is not one.
func seconds(s string) time.Duration {
	if strings.Contains(s, ".") {
		return 0
	}
	return decimal(s, time.Second)
}

// decimal returns a number of units that may have a fraction, 0 if s is not one.
func decimal(s string, unit time.Duration) time.Duration {
	whole, fraction, _ := strings.Cut(s, ".")
	if whole == "" || strings.Trim(whole+fraction, "0123456789") != "" {
		return 0
	}
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || n >= int64(math.MaxInt64/unit) {
		return math.MaxInt64
	}
	part, _ := strconv.ParseFloat("0."+fraction, 64) // digits only
	return time.Duration(n)*unit + time.Duration(part*float64(unit))
}

func digit(c byte) bool { return '0' <= c && c <= '9' }
