package wire

import (
	"math"
	"net/http"
	"strconv"
	"time"
)

// Timeout returns how long the client waits for the answer, as its TimeoutHeader says: in
// milliseconds ("1500") or as a duration with a unit ("1.5s", "500ms"). 0: it does not say.
func Timeout(h http.Header) (d time.Duration, ok bool) {
	lines, sent := h[TimeoutHeader]
	if !sent {
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
