package wire

import (
	"testing"
	"time"
)

// FuzzFirstSent: whatever is accepted is one moment, which can be said in both ways.
func FuzzFirstSent(f *testing.F) {
	for _, s := range []string{"1767225600000", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00.123456789+14:00", "2026-01-01T00:00:00,5Z", "-1", "1e12", ""} {
		f.Add(s)
	}
	parse := func(s string) (time.Time, bool) { return FirstSent([]string{s}) }
	f.Fuzz(func(t *testing.T, value string) {
		at, ok := parse(value)
		if !ok {
			return
		}
		if y := at.UTC().Year(); y < 2000 || y > 9999 {
			t.Fatalf("%q is %v", value, at)
		}
		if again, ok := parse(at.UTC().Format(time.RFC3339Nano)); !ok || !again.Equal(at) {
			t.Errorf("%q is %v, and that %v", value, at, again)
		}
		if again, ok := parse(FormatFirstSent(at)); !ok || !again.Equal(at.Truncate(time.Millisecond)) {
			t.Errorf("%q is %v, and in milliseconds %v", value, at, again)
		}
	})
}
