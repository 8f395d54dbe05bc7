// Package printable distinguishes text from bytes that a log, a header or a column cannot carry.
package printable

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Is reports whether s is UTF-8 without control characters.
func Is(s string) bool {
	for i := range len(s) {
		switch b := s[i]; {
		case b >= utf8.RuneSelf: // rare: the rest is read rune by rune
			return utf8.ValidString(s[i:]) && !strings.ContainsFunc(s[i:], unicode.IsControl)
		case b < ' ', b == 0x7f:
			return false
		}
	}
	return true
}

// Cut returns at most the first bytes of s, as whole characters.
func Cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}

// Short returns enough of s to be recognised in an error.
func Short(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return Cut(s, most) + "..."
}
