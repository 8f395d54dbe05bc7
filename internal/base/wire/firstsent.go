package wire

import (
	"errors"
	"strconv"
	"time"

	"github.com/oncelib/once/internal/base/keyname"
)

// ErrFuture is why an operation is invalid that was first sent in the future.
var ErrFuture = errors.New("first sent in the future, further than clocks may differ")

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
