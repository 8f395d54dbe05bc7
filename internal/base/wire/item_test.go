package wire

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// scanner is a second opinion on [parseString]: it reads the same grammar by hand, from the
// left. Its methods report whether they have found what they are named after.
type scanner struct{ rest string }

// item reads a field value that must be a String with parameters, and returns the String.
func item(value string) (text string, found bool) {
	s := scanner{strings.Trim(value, " ")}
	text, found = s.text()
	return text, found && s.parameters() && s.rest == ""
}

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
	for s.rest != "" {
		c := s.rest[0]
		s.rest = s.rest[1:]
		switch {
		case c == '"':
			return text, true
		case c < ' ' || c > '~':
			return "", false
		case c != '\\':
			text += string(c)
		case s.skip(`"`):
			text += `"`
		case s.skip(`\`):
			text += `\`
		default:
			return "", false
		}
	}
	return "", false
}

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
	_, padded := base64.StdEncoding.DecodeString(encoded)
	_, bare := base64.RawStdEncoding.DecodeString(encoded)
	return (padded == nil || bare == nil) && s.skip(":")
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

// TestKeyGrammar: each byte at each place of each type, and each length of number, is accepted
// as the scanner has it.
func TestKeyGrammar(t *testing.T) {
	accepted, refused := 0, 0
	judge := func(value string) {
		t.Helper()
		want, ok := item(value)
		switch got, err := parseString(value); {
		case (err == nil) != ok:
			t.Errorf("%q: %v, by the scanner it is %t", value, err, ok)
		case err != nil:
			refused++
		case got != want:
			t.Errorf("%q is %q, want %q", value, got, want)
		default:
			accepted++
		}
	}
	for b := range 256 {
		c := string([]byte{byte(b)})
		for _, form := range []string{
			`%s`, `%s"k"`, `"%s"`, `"a%s"`, `"%sa"`, `"\%s"`, `"k"%s`, `"k"%s;a`, // a String
			`"k";%s`, `"k";%s=1`, `"k";a%s`, `"k";a%sb=1`, `"k";a=%s`, `"k";a=1%s`, `"k";a=1;%s`, // a parameter
			`"k";a="%s"`, `"k";a="\%s"`, `"k";a=t%s`, `"k";a=*%st`, `"k";a=?%s`, `"k";a=-%s`, `"k";a=1.%s`, `"k";a=@%s`, `"k";a=@1%s`, `"k";a=:YW%s=:`, `"k";a=%%"%s"`, // its value
		} {
			judge(fmt.Sprintf(form, c))
		}
	}
	for whole := range 18 {
		for part := range 6 {
			for _, sign := range []string{"", "-", "+", "--"} {
				number := sign + strings.Repeat("1", whole)
				judge(`"k";a=` + number)
				judge(`"k";a=@` + number)
				judge(`"k";a=` + number + "." + strings.Repeat("2", part))
			}
		}
	}
	bytes := []byte{0x00, 0x22, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xec, 0xed, 0xee, 0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5}
	for _, first := range bytes { // the bounds of UTF-8
		for _, second := range bytes {
			judge(fmt.Sprintf(`"k";a=%%"%%%02x%%%02x"`, first, second))
			for _, third := range []byte{0x22, 0x7f, 0x80, 0xbf, 0xc0} {
				judge(fmt.Sprintf(`"k";a=%%"%%%02x%%%02x%%%02x"`, first, second, third))
				judge(fmt.Sprintf(`"k";a=%%"%%%02x%%%02x%%%02x%%80"`, first, second, third))
				judge(fmt.Sprintf(`"k";a=%%"%%%02x%%%02x%%80%%%02x"`, first, second, third))
			}
		}
	}
	if accepted < 1000 || refused < 1000 {
		t.Errorf("only %d are accepted and %d refused", accepted, refused)
	}
}
