// Package prefix finds the range of the texts that begin with a prefix.
package prefix

import (
	"strings"
	"unicode/utf8"
)

// After returns the first text behind all that begin with prefix, in the order of their bytes; "" if no text is behind them.
func After(prefix string) string {
	prefix = strings.ToValidUTF8(prefix, "")
	for prefix != "" {
		r, size := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-size]
		switch r {
		case utf8.MaxRune:
			continue
		case 0xD7FF: // behind it come the surrogates, which are no characters
			r = 0xDFFF
		}
		return prefix + string(r+1)
	}
	return ""
}
