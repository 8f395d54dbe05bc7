package wire

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/internal/base/traceparent"
)

// Names of headers as net/http spells them.
const (
	KeyHeader       = "Idempotency-Key"
	AttemptHeader   = "Once-Attempt"
	FirstSentHeader = "Once-First-Sent"
	UndoesHeader    = "Once-Undoes"
	TimeoutHeader   = "X-Request-Timeout"
	TraceHeader     = "Traceparent"
	StatusHeader    = "Idempotency-Status"
	ReplayedHeader  = "Idempotent-Replayed"
	RetentionHeader = "Idempotency-Retention"
	RedactedHeader  = "Idempotency-Redacted"
)

// Attempt returns the number of the attempt in the lines of an AttemptHeader; 0: they
// have no valid number. The number only serves logs and hints, so a wrong one is no error.
func Attempt(lines []string) int {
	const longest = 128 // as of everything that goes to logs
	if len(lines) != 1 || len(lines[0]) > longest {
		return 0
	}
	n, err := strconv.ParseUint(lines[0], 10, 31)
	if err != nil {
		return 0
	}
	return int(n)
}

// ErrFuture is why an operation is invalid that was first sent in the future.
var ErrFuture = errors.New("the time of the first attempt is in the future, by more than clocks may differ (Config.Skew)")

// FirstSentForm says in a refusal what a FirstSentHeader must be.
const FirstSentForm = "the moment of the first attempt, as a number of milliseconds since 1970 or as in 2026-01-01T00:00:00Z. It must not lie in the future."

// FirstSent returns when the client has sent the operation for the first time, as the
// lines of its FirstSentHeader say: in milliseconds since 1970 ("1767225600000") or as in
// RFC 3339 ("2026-01-01T00:00:00Z"). Zero: they do not say it.
//
// A value that cannot be such a moment is refused: without it, a retry would be executed that
// the client has said may be too old.
func FirstSent(lines []string) (t time.Time, ok bool) {
	if lines == nil {
		return t, true
	}
	if len(lines) != 1 {
		return t, false
	}
	if ms, err := strconv.ParseUint(lines[0], 10, 63); err == nil {
		t = time.UnixMilli(int64(ms))
	} else if t, err = time.Parse(time.RFC3339, lines[0]); err != nil {
		return t, false
	}
	year := t.UTC().Year() // a number of seconds would be in 1970
	return t, 2000 <= year && year <= 9999
}

// FirstSentOrKeyTime is FirstSent where the lines say it; otherwise, if keyTime, it is the
// moment at which the key was made.
func FirstSentOrKeyTime(lines []string, key string, keyTime bool) (t time.Time, ok bool) {
	if t, ok = FirstSent(lines); ok && keyTime && t.IsZero() {
		t, _ = keyname.Time(key)
	}
	return t, ok
}

// FormatFirstSent returns the value of a FirstSentHeader.
func FormatFirstSent(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) }

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

// Trace returns the traceparent that the lines of a TraceHeader hold, "" if it is missing or malformed.
func Trace(lines []string) string {
	if len(lines) != 1 {
		return ""
	}
	return traceparent.Parse(lines[0])
}

// Values of the StatusHeader of an answer.
const (
	StatusStored    = "stored"     // a retry gets this answer again
	StatusOmitted   = "omitted"    // the answer is too large to be stored: a retry is refused and never executes
	StatusReplayed  = "replayed"   // it is the answer of an earlier request
	StatusNotStored = "not-stored" // nothing was applied, and a retry with the key executes
	StatusIgnored   = "ignored"    // there is no key, or the method is not keyed: a retry executes
	StatusUndone    = "undone"     // what the request undoes was executed, and is undone, by this or an earlier attempt
	StatusNothing   = "nothing"    // what the request undoes was not executed, and will not be any more
)

// FormatRetention returns the value of a RetentionHeader: a number of seconds.
func FormatRetention(retain time.Duration) string {
	return strconv.FormatInt(int64(retain/time.Second), 10)
}
