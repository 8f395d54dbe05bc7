package asked

import (
	"strconv"
	"time"

	"github.com/oncelib/once"
)

// FirstSent returns when the client has sent the operation for the first time, as the
// lines of its Once-First-Sent say: in milliseconds since 1970 ("1767225600000") or as in
// RFC 3339 ("2026-01-01T00:00:00Z"). Zero: not said.
//
// What cannot be such a moment is refused: without it, a retry would be executed of
// which the client has said that it may be too old.
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

// FirstSentOf is FirstSent, or else the moment at which key was made, if byKey.
func FirstSentOf(lines []string, key string, byKey bool) (t time.Time, ok bool) {
	if t, ok = FirstSent(lines); ok && byKey && t.IsZero() {
		t, _ = once.KeyTime(key)
	}
	return t, ok
}
