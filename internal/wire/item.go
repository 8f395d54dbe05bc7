package wire

import (
	"encoding/base64"
	"errors"
	"net/url"
	"regexp"
	"strings"
	"unicode/utf8"
)

var (
	errNotString = errors.New("it is not a String of RFC 9651")
	errNotItem   = errors.New("it is not an Item of RFC 9651")
)

// parseString reads a field value that must be a String with parameters (RFC 9651,
// sections 3.3.3 and 4.2.5), and returns the String. What the parameters say does not
// matter, but they must follow the grammar: otherwise two lines that a proxy has joined by a
// comma could pass for one.
func parseString(value string) (string, error) {
	s := scanner{strings.Trim(value, " ")}
	text, ok := s.text()
	if !ok {
		return "", errNotString
	}
	if !s.parameters() || s.rest != "" {
		return "", errNotItem
	}
	return text, nil
}

// scanner consumes a field value from the left. Its methods report whether they have found
// what they are named after.
type scanner struct{ rest string }

const (
	digits      = "0123456789"
	lowerCase   = "abcdefghijklmnopqrstuvwxyz"
	letters     = lowerCase + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	nameChars   = lowerCase + digits + "_-.*"
	tokenChars  = letters + digits + "!#$%&'*+-.^_`|~:/"
	base64Chars = letters + digits + "+/="
)

func (s *scanner) skip(prefix string) (found bool) {
	s.rest, found = strings.CutPrefix(s.rest, prefix)
	return found
}

// span consumes all characters up to the first one that is not in set, and counts them.
func (s *scanner) span(set string) (n int) {
	n = len(s.rest) - len(strings.TrimLeft(s.rest, set))
	s.rest = s.rest[n:]
	return n
}

// text consumes a String, from quote to quote, and returns what it stands for.
func (s *scanner) text() (text string, found bool) {
	if !s.skip(`"`) {
		return "", false
	}
	escaped := false
	for i := 0; i < len(s.rest); i++ {
		switch c := s.rest[i]; {
		case c == '"':
			text, s.rest = s.rest[:i], s.rest[i+1:]
			if escaped { // a replacer allocates, and hardly any key has a backslash
				text = unescape.Replace(text)
			}
			return text, true
		case c == '\\':
			escaped = true
			if i++; i == len(s.rest) || s.rest[i] != '"' && s.rest[i] != '\\' {
				return "", false
			}
		case c < 0x20 || c > 0x7e:
			return "", false
		}
	}
	return "", false
}

var unescape = strings.NewReplacer(`\\`, `\`, `\"`, `"`)

func (s *scanner) parameters() bool {
	for s.skip(";") {
		s.span(" ")
		if s.span(lowerCase+"*") == 0 {
			return false
		}
		s.span(nameChars)
		if s.skip("=") && !s.bareItem() {
			return false
		}
	}
	return true
}

// bareItem consumes the value of a parameter, of any type.
func (s *scanner) bareItem() bool {
	switch {
	case strings.HasPrefix(s.rest, `"`):
		_, found := s.text()
		return found
	case s.skip(":"):
		return s.byteSequence()
	case s.skip("?"):
		return s.skip("0") || s.skip("1")
	case s.skip("@"): // a Date is an Integer
		return s.number(false)
	case s.skip(`%"`):
		return s.displayString()
	case s.span(letters+"*") > 0: // a Token
		s.span(tokenChars)
		return true
	}
	return s.number(true)
}

// number consumes an Integer, or a Decimal if that is allowed.
func (s *scanner) number(decimal bool) bool {
	s.skip("-")
	whole := s.span(digits)
	if !s.skip(".") {
		return 0 < whole && whole <= 15
	}
	fraction := s.span(digits)
	return decimal && 0 < whole && whole <= 12 && 0 < fraction && fraction <= 3
}

// byteSequence consumes a Byte Sequence whose first colon is gone.
func (s *scanner) byteSequence() bool {
	rest := s.rest
	encoded := rest[:s.span(base64Chars)]
	_, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(encoded, "="))
	return err == nil && s.skip(":")
}

// displayString consumes a Display String whose opening quote is gone. It is UTF-8, escaped as
// in a URL but with digits in lower case; so no quote is inside of it.
func (s *scanner) displayString() bool {
	text, rest, closed := strings.Cut(s.rest, `"`)
	s.rest = rest
	decoded, err := url.PathUnescape(text)
	return closed && err == nil && utf8.ValidString(decoded) && !notDisplay.MatchString(text)
}

// notDisplay matches what a URL may have in it and a Display String may not: an escape in upper
// case, or a character that is not printable ASCII.
var notDisplay = regexp.MustCompile(`%.?[A-F]|[^ -~]`)
