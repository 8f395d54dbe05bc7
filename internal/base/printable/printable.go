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
		case b >= utf8.RuneSelf: // rare, so only then the rest is read as runes
			return utf8.ValidString(s[i:]) && !strings.ContainsFunc(s[i:], unicode.IsControl)
		case b < ' ', b == 0x7f:
			return false
		}
	}
	return true
}

// Cut returns the beginning of s, of at most most bytes, without splitting a character.
func Cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}

// Short returns a beginning of s that is long enough to recognise s in an error.
func Short(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return Cut(s, most) + "..."
}
