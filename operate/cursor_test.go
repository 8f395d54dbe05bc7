package operate

import (
	"strings"
	"testing"
)

// FuzzCursorReadsWhatWasWritten: what is read is what was written, and nothing else is read.
func FuzzCursorReadsWhatWasWritten(f *testing.F) {
	f.Add("s", "k", "")
	f.Add("", "", "gA")
	f.Add("acme POST /refunds", "\x00\xff", "gAE")
	f.Add(strings.Repeat("s", 200), "", "//8")
	f.Fuzz(func(t *testing.T, scope, key, text string) {
		want := cursor{scope, key}
		if got, err := parseCursor(want.String()); err != nil || got != want {
			t.Errorf("%q, %q: %+v, %v", scope, key, got, err)
		}
		if c, err := parseCursor(text); err == nil && c.String() != text {
			t.Errorf("%q is read as %+v, which is %q", text, c, c.String())
		} else if err != nil && !strings.Contains(err.Error(), "Try: ") {
			t.Error(err)
		}
	})
}
