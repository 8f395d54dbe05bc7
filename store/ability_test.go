package store_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/oncelib/once/store"
)

// FuzzAfterPrefix: a prefix and what comes after it enclose the texts that begin so.
func FuzzAfterPrefix(f *testing.F) {
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
		end := store.AfterPrefix(prefix)
		if !utf8.ValidString(end) {
			t.Fatalf("%q: %q is no text", prefix, end)
		}
		if within := s >= prefix && (end == "" || s < end); within != strings.HasPrefix(s, prefix) {
			t.Errorf("%q begins with %q: %v, in the range to %q: %v", s, prefix, !within, end, within)
		}
	})
}
