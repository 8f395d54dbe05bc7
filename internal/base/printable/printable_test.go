package printable_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/oncelib/once/internal/base/printable"
)

// FuzzPrintableHasNoControls: it is UTF-8 without control characters, wherever in the text they are.
func FuzzPrintableHasNoControls(f *testing.F) {
	for _, s := range []string{"", "POST /refunds", "é", "a\tb", "é\tb", "a\x7f", "a\u0085", "a\xff", "é\xff", "\u2028"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if want := utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl); printable.Is(s) != want {
			t.Errorf("%q: %v", s, !want)
		}
	})
}
