package wire

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strings"
	"unicode/utf8"
)

var (
	errNotString = errors.New("it is not a String of RFC 9651")
	errItem      = errors.New("it is not an Item of RFC 9651")
)

// parseString reads a field value that must be a String with parameters (RFC 9651,
// sections 3.3.3 and 4.2.5), and returns the String. What the parameters say does not
// matter, but they must be there as the grammar wants them: without that, two lines
// that a proxy has joined by a comma could pass for one.
func parseString(value string) (string, error) {
	s := scanner{rest: strings.TrimLeft(value, " ")}
	if !s.at('"') {
		return "", errNotString
	}
	text, err := s.text()
	if err != nil {
		return "", err
	}
	if err := s.parameters(); err != nil {
		return "", err
	}
	if strings.Trim(s.rest, " ") != "" {
		return "", errItem
	}
	return text, nil
}

// scanner consumes a field value from the left.
type scanner struct{ rest string }

func (s *scanner) at(c byte) bool { return s.rest != "" && s.rest[0] == c }

// skip consumes c if it comes next.
func (s *scanner) skip(c byte) bool {
	if !s.at(c) {
		return false
	}
	s.rest = s.rest[1:]
	return true
}

// while consumes the longest prefix of bytes that are ok.
func (s *scanner) while(ok func(c byte) bool) string {
	n := 0
	for n < len(s.rest) && ok(s.rest[n]) {
		n++
	}
	taken := s.rest[:n]
	s.rest = s.rest[n:]
	return taken
}

// text consumes a String, from quote to quote.
func (s *scanner) text() (string, error) {
	if !s.skip('"') {
		return "", errNotString
	}
	for i := 0; i < len(s.rest); i++ {
		switch c := s.rest[i]; {
		case c == '"':
			text := s.rest[:i]
			s.rest = s.rest[i+1:]
			return text, nil
		case c == '\\':
			return s.escaped(i)
		case c < 0x20 || c > 0x7e:
			return "", errNotString
		}
	}
	return "", errNotString
}

// escaped is text for a String whose first backslash is at i.
func (s *scanner) escaped(i int) (string, error) {
	text := append(make([]byte, 0, len(s.rest)), s.rest[:i]...)
	for ; i < len(s.rest); i++ {
		switch c := s.rest[i]; {
		case c == '"':
			s.rest = s.rest[i+1:]
			return string(text), nil
		case c == '\\':
			if i++; i == len(s.rest) || s.rest[i] != '"' && s.rest[i] != '\\' {
				return "", errNotString
			}
			text = append(text, s.rest[i])
		case c < 0x20 || c > 0x7e:
			return "", errNotString
		default:
			text = append(text, c)
		}
	}
	return "", errNotString
}

func (s *scanner) parameters() error {
	for s.skip(';') {
		s.rest = strings.TrimLeft(s.rest, " ")
		if s.rest == "" || !lower(s.rest[0]) && s.rest[0] != '*' {
			return errItem
		}
		s.while(func(c byte) bool {
			return lower(c) || digit(c) || c == '_' || c == '-' || c == '.' || c == '*'
		})
		if s.skip('=') {
			if err := s.bareItem(); err != nil {
				return err
			}
		}
	}
	return nil
}

// bareItem consumes the value of a parameter, of any type.
func (s *scanner) bareItem() error {
	if s.rest == "" {
		return errItem
	}
	switch c := s.rest[0]; {
	case c == '-' || digit(c):
		return s.number(true)
	case c == '"':
		_, err := s.text()
		return err
	case c == '*' || lower(c|0x20):
		s.while(tokenChar)
		return nil
	case c == ':':
		return s.bytes()
	case c == '?':
		s.rest = s.rest[1:]
		if !s.skip('0') && !s.skip('1') {
			return errItem
		}
		return nil
	case c == '@':
		s.rest = s.rest[1:]
		return s.number(false)
	case c == '%':
		return s.display()
	}
	return errItem
}

// number consumes an Integer, or a Decimal if that is allowed.
func (s *scanner) number(decimal bool) error {
	s.skip('-')
	whole := len(s.while(digit))
	if whole == 0 || whole > 15 {
		return errItem
	}
	if !s.skip('.') {
		return nil
	}
	if part := len(s.while(digit)); !decimal || whole > 12 || part == 0 || part > 3 {
		return errItem
	}
	return nil
}

// bytes consumes a Byte Sequence.
func (s *scanner) bytes() error {
	s.skip(':')
	encoded := s.while(func(c byte) bool {
		return lower(c|0x20) || digit(c) || c == '+' || c == '/' || c == '='
	})
	if !s.skip(':') {
		return errItem
	}
	if _, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(encoded, "=")); err != nil {
		return errItem
	}
	return nil
}

// display consumes a Display String.
func (s *scanner) display() error {
	s.skip('%')
	if !s.skip('"') {
		return errItem
	}
	var text []byte
	for i := 0; i < len(s.rest); i++ {
		switch c := s.rest[i]; {
		case c == '"':
			s.rest = s.rest[i+1:]
			if !utf8.Valid(text) {
				return errItem
			}
			return nil
		case c == '%':
			if i+2 >= len(s.rest) || strings.ToLower(s.rest[i+1:i+3]) != s.rest[i+1:i+3] {
				return errItem
			}
			b, err := hex.DecodeString(s.rest[i+1 : i+3])
			if err != nil {
				return errItem
			}
			text = append(text, b...)
			i += 2
		case c < 0x20 || c > 0x7e:
			return errItem
		default:
			text = append(text, c)
		}
	}
	return errItem
}

func lower(c byte) bool { return 'a' <= c && c <= 'z' }
func digit(c byte) bool { return '0' <= c && c <= '9' }

func tokenChar(c byte) bool {
	return lower(c|0x20) || digit(c) || strings.IndexByte("!#$%&'*+-.^_`|~:/", c) >= 0
}
