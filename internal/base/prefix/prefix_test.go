package prefix_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/oncelib/once/internal/base/prefix"
)

// FuzzPrefixesEncloseTheirTexts: a prefix and what comes after it enclose the texts that begin so.
func FuzzPrefixesEncloseTheirTexts(f *testing.F) {
	for _, s := range []string{"a", "a\x7f", "ÿ", "\ud7ff", "\uffff", "\U0010ffff", "a\U0010ffff"} {
		f.Add(s, s+"x")
		f.Add(s, s+"\U0010ffff\U0010ffff")
		f.Add(s, "b")
	}
	f.Add("\ud7ff", "\ue000") // between them are no characters
	f.Fuzz(func(t *testing.T, begin, s string) {
		if !utf8.ValidString(begin) || !utf8.ValidString(s) || begin == "" {
			return
		}
		end := prefix.After(begin)
		if !utf8.ValidString(end) {
			t.Fatalf("%q: %q is no text", begin, end)
		}
		if within := s >= begin && (end == "" || s < end); within != strings.HasPrefix(s, begin) {
			t.Errorf("%q begins with %q: %v, in the range to %q: %v", s, begin, !within, end, within)
		}
	})
}
