// Package prefix finds the range of the texts that begin with a prefix.
package prefix

import (
	"strings"
	"unicode/utf8"
)

// After returns the first text that sorts after all texts with this prefix, in byte order. It returns "" if no such text
// exists.
func After(prefix string) string {
	prefix = strings.ToValidUTF8(prefix, "")
	for prefix != "" {
		r, size := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-size]
		switch r {
		case utf8.MaxRune:
			continue
		case 0xD7FF: // the next code points are surrogates, which are not characters
			r = 0xDFFF
		}
		return prefix + string(r+1)
	}
	return ""
}
