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
// its three forms. A date is compared with the server's own clock if there is one in h.
// named is false if h names no time, or none that can be understood: 0 seconds, and a date
// that is over, are times. A time that is too long to be expressed is the longest one.
func retryAfter(h http.Header, now time.Time) (after time.Duration, named bool) {
	ms, named := decimal(field(h, headerAfterMs), time.Millisecond)
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
	if theirs, err := http.ParseTime(gmt(h.Get("Date"))); err == nil {
		now = theirs
	}
	return max(0, date.Sub(now)), true
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
	d, _ := decimal(s, time.Second)
	return d
}

// decimal returns a number of units that may have a fraction, and whether s is one.
func decimal(s string, unit time.Duration) (d time.Duration, ok bool) {
	whole, fraction, _ := strings.Cut(s, ".")
	if whole == "" || strings.Trim(whole+fraction, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || n >= int64(math.MaxInt64/unit) {
		return math.MaxInt64, true
	}
	part, _ := strconv.ParseFloat("0."+fraction, 64) // digits only
	return time.Duration(n)*unit + time.Duration(part*float64(unit)), true
}
