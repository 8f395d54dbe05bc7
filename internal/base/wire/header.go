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

// These are the names of headers, as net/http spells them.
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

// Attempt returns the number of the attempt from the lines of an AttemptHeader, or 0 if they have no valid number. Only logs
// and hints use this number, so a wrong number is not an error.
func Attempt(lines []string) int {
	const longest = 128 // the same limit as for all texts in logs
	if len(lines) != 1 || len(lines[0]) > longest {
		return 0
	}
	n, err := strconv.ParseUint(lines[0], 10, 31)
	if err != nil {
		return 0
	}
	return int(n)
}

// ErrFuture says that an operation is invalid because its first attempt is in the future.
var ErrFuture = errors.New("the time of the first attempt is further in the future than clocks may differ (Config.Skew)")

// FirstSentForm describes a valid FirstSentHeader, for the text of a refusal.
const FirstSentForm = "the moment of the first attempt, as a number of milliseconds since 1970 or as in 2026-01-01T00:00:00Z. It must not lie in the future."

// FirstSent returns the time of the first attempt of the client, from the lines of its FirstSentHeader: in milliseconds
// since 1970 ("1767225600000") or in the form of RFC 3339 ("2026-01-01T00:00:00Z"). It returns the zero time if the lines
// are missing.
//
// An invalid value is refused: without it, a retry that is too old by the client's own words would be executed.
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
	year := t.UTC().Year() // a number of seconds, instead of milliseconds, would be in 1970
	return t, 2000 <= year && year <= 9999
}

// FirstSentOrKeyTime does the same as FirstSent. If the lines are missing and keyTime is true, it returns the time at which
// the key was made.
func FirstSentOrKeyTime(lines []string, key string, keyTime bool) (t time.Time, ok bool) {
	if t, ok = FirstSent(lines); ok && keyTime && t.IsZero() {
		t, _ = keyname.Time(key)
	}
	return t, ok
}

// FormatFirstSent returns the value of a FirstSentHeader.
func FormatFirstSent(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) }

// Timeout returns how long the client waits for the answer, from its TimeoutHeader: in milliseconds ("1500") or as a duration
// with a unit ("1.5s", "500ms"). It returns 0 if the header is missing.
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

// Trace returns the traceparent of the lines of a TraceHeader, or "" if it is missing or malformed.
func Trace(lines []string) string {
	if len(lines) != 1 {
		return ""
	}
	return traceparent.Parse(lines[0])
}

// These are values of the StatusHeader of an answer.
const (
	StatusStored    = "stored"     // a retry gets the same answer
	StatusOmitted   = "omitted"    // the answer is too large to be stored: a retry is refused and does not execute
	StatusReplayed  = "replayed"   // the answer comes from an earlier request
	StatusNotStored = "not-stored" // nothing was applied, and a retry with the same key executes
	StatusIgnored   = "ignored"    // the request has no key, or its method has no keys: a retry executes
	StatusUndone    = "undone"     // the operation that this request undoes was executed, and this attempt or an earlier one has undone it
	StatusNothing   = "nothing"    // the operation that this request undoes was not executed, and will never be executed
)

// FormatRetention returns the value of a RetentionHeader: a number of seconds.
func FormatRetention(retain time.Duration) string {
	return strconv.FormatInt(int64(retain/time.Second), 10)
}
