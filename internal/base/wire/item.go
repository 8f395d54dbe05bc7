package wire

import (
	"errors"
	"regexp"
	"strings"
	"sync"
)

var (
	errNotString = errors.New("the value is not a String of RFC 9651")
	errNotItem   = errors.New("the value is not an Item of RFC 9651")
)

// parseString reads a field value that must be a String with parameters (RFC 9651, sections 3.3.3 and 4.2.5), and returns the
// String. The values of the parameters do not matter, but the parameters must follow the grammar. Otherwise two header
// lines that a proxy has joined with a comma could look like one value.
func parseString(value string) (string, error) {
	text, rest, ok := cutString(strings.Trim(value, " "))
	switch {
	case !ok:
		return "", errNotString
	case rest != "" && !parameters().MatchString(rest):
		return "", errNotItem
	}
	return text, nil
}

// cutString cuts a String, with its quotation marks, from the beginning of s. It returns the unescaped text.
func cutString(s string) (text, rest string, ok bool) {
	if s, ok = strings.CutPrefix(s, `"`); !ok {
		return "", "", false
	}
	escaped := false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			text = s[:i]
			if escaped { // only if needed: a replacer allocates, and few keys have a backslash
				text = unescape.Replace(text)
			}
			return text, s[i+1:], true
		case c == '\\':
			escaped = true
			if i++; i == len(s) || s[i] != '"' && s[i] != '\\' {
				return "", "", false
			}
		case c < 0x20 || c > 0x7e:
			return "", "", false
		}
	}
	return "", "", false
}

var unescape = strings.NewReplacer(`\\`, `\`, `\"`, `"`)

// parameters matches the parameters after a String: RFC 9651, section 3.1.2, and the UTF-8 of RFC 3629 for a Display String.
// The expression is compiled when the first client sends parameters.
var parameters = sync.OnceValue(func() *regexp.Regexp {
	const (
		name    = `[a-z*][a-z0-9_\-.*]*`
		text    = `"(?:[ !#-\[\]-~]|\\["\\])*"`
		number  = `-?(?:[0-9]{1,15}|[0-9]{1,12}\.[0-9]{1,3})`
		token   = "[A-Za-z*][!#$%&'*+\\-.^_`|~0-9A-Za-z:/]*" //nolint:gosec // a token of the grammar
		bytes   = `:(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?:`
		boolean = `\?[01]`
		date    = `@-?[0-9]{1,15}`

		hex, tail = `[0-9a-f]`, `%[89ab][0-9a-f]`
		two       = `%(?:c[2-9a-f]|d` + hex + `)` + tail
		three     = `%(?:e0%[ab]` + hex + `|e[1-9abcef]` + tail + `|ed%[89]` + hex + `)` + tail
		four      = `%(?:f0%[9ab]` + hex + `|f[1-3]` + tail + `|f4%8` + hex + `)` + tail + tail
		display   = `%"(?:[ !#$&-~]|%[0-7]` + hex + `|` + two + `|` + three + `|` + four + `)*"`

		value = text + `|` + number + `|` + token + `|` + bytes + `|` + boolean + `|` + date + `|` + display
	)
	return regexp.MustCompile(`^(?:; *` + name + `(?:=(?:` + value + `))?)*$`)
})
