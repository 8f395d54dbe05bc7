package operate

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzCursor: what is read is what was written, and nothing else is read.
func FuzzCursor(f *testing.F) {
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

// FuzzAfter: a prefix and what comes after it enclose the texts that begin so.
func FuzzAfter(f *testing.F) {
	for _, s := range []string{"a", "a\x7f", "ÿ", "\ud7ff", "\uffff", "\U0010ffff", "a\U0010ffff"} {
		f.Add(s, s+"x")
		f.Add(s, s+"\U0010ffff\U0010ffff")
		f.Add(s, "b")
	}
	f.Add("\ud7ff", "\ue000") // between them are no characters
	f.Fuzz(func(t *testing.T, prefix, s string) {
		if !utf8.ValidString(prefix) || !utf8.ValidString(s) || prefix == "" {
			return
		}
		end := after(prefix)
		if !utf8.ValidString(end) {
			t.Fatalf("%q: %q is no text", prefix, end)
		}
		if within := s >= prefix && (end == "" || s < end); within != strings.HasPrefix(s, prefix) {
			t.Errorf("%q begins with %q: %v, in the range to %q: %v", s, prefix, !within, end, within)
		}
	})
}
