package oncehttp

import (
	"net/http"
	"strconv"
	"time"

	"github.com/oncelib/once"
)

// firstSent returns when the operation of a key was sent first, zero if that is not said.
func (p *plan) firstSent(r *http.Request, key string) (t time.Time, ok bool) {
	if t, ok = firstSent(r); ok && p.KeyTime && t.IsZero() {
		t, _ = once.KeyTime(key)
	}
	return t, ok
}

// firstSent returns when the client has sent the operation for the first time:
// Once-First-Sent, in milliseconds since 1970 ("1767225600000") or as in RFC 3339
// ("2026-01-01T00:00:00Z"). Zero: not said.
//
// What cannot be such a moment is refused: without it, a retry would be executed of
// which the client has said that it may be too old.
func firstSent(r *http.Request) (t time.Time, ok bool) {
	lines, said := r.Header["Once-First-Sent"]
	if !said {
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
