// Package timeout reads X-Request-Timeout, for all that look at it.
package timeout

import (
	"math"
	"net/http"
	"strconv"
	"time"
)

// Of returns how long the client will wait for the answer: X-Request-Timeout, in
// milliseconds ("1500") or as a duration with a unit ("1.5s", "500ms"). 0: not said.
func Of(r *http.Request) (d time.Duration, ok bool) {
	lines, said := r.Header["X-Request-Timeout"]
	if !said {
		return 0, true
	}
	if len(lines) != 1 {
		return 0, false
	}
	if ms, err := strconv.ParseInt(lines[0], 10, 64); err == nil {
		return time.Duration(ms) * time.Millisecond, 0 < ms && ms <= math.MaxInt64/int64(time.Millisecond)
	}
	d, err := time.ParseDuration(lines[0])
	return d, err == nil && d > 0
}
