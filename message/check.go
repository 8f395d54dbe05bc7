package message

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/oncelib/once/internal/base/printable"
)

// Check returns an error if a text of m, or the Seq of m, cannot be transported by every database and broker.
// Check does not check the payload and the headers.
func (m *Message) Check() error {
	for _, text := range [...]struct{ name, value string }{
		{"ID", m.ID}, {"source", m.Source}, {"topic", m.Topic}, {"key", m.Key}, {"type", m.Type}, {"trace", m.Trace},
	} {
		if err := CheckText(text.name, text.value, MaxText); err != nil {
			return err
		}
	}
	if m.Seq < 0 {
		return fmt.Errorf("the Seq %d is negative. Try: 1, 2, 3, ..., or 0 for a message without a number", m.Seq)
	}
	return nil
}

// CheckText returns an error if s has more than most bytes, or cannot be transported by every database and
// broker. The parameter name is the name of the text in the error.
func CheckText(name, s string, most int) error {
	switch {
	case len(s) > most:
		return fmt.Errorf("the %s has %d bytes, and at most %d are allowed. Try: a shorter text, such as a hash", name, len(s), most)
	case !printable.Is(s):
		return fmt.Errorf("the %s %q contains control characters or is not UTF-8. Try: printable text", name, printable.Short(s))
	}
	return nil
}

// headersSize returns how many bytes the names and values of headers have.
func headersSize(h map[string]string) (n int) {
	for name, value := range h {
		n += len(name) + len(value)
	}
	return n
}

// CheckHeadersSize returns an error if the names and values of h have more than most bytes together.
func CheckHeadersSize(h map[string]string, most int) error {
	if n := headersSize(h); n > most {
		return fmt.Errorf("the headers have %d bytes, and at most %d are allowed. Try: move data from the headers to the payload", n, most)
	}
	return nil
}

// CheckHeaders returns a copy of headers for sending, with names in lower case. CheckHeaders returns an error if
// a name or a value is not valid in HTTP, or if a name belongs to the delivery (HTTP or the publisher itself
// writes a header with this name): see [IsOfDelivery].
func CheckHeaders(h map[string]string) (map[string]string, error) {
	if len(h) == 0 {
		return h, nil
	}
	lower := make(map[string]string, len(h))
	for _, name := range slices.Sorted(maps.Keys(h)) { // sorted, so that the same headers give the same error
		value := h[name]
		key := strings.ToLower(name)
		switch _, twice := lower[key]; {
		case !isToken(name):
			return nil, fmt.Errorf("the header name %q is not a valid HTTP header name. Try: letters, digits and hyphens", printable.Short(name))
		case IsOfDelivery(key):
			return nil, fmt.Errorf("the header %q is reserved for the delivery of messages. Try: another name", name)
		case twice:
			return nil, fmt.Errorf("the message has the header %q twice, because header names do not distinguish upper case and lower case. Try: remove one of the two headers", name)
		case !isHeaderValue(value):
			return nil, fmt.Errorf("the value of the header %q contains control characters, begins or ends with a blank, or is not UTF-8. Try: printable text, or move the value to the payload", name)
		}
		lower[key] = value
	}
	return lower, CheckHeadersSize(lower, MaxHeaders)
}

// isToken reports whether s can be the name of an HTTP header.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r >= utf8.RuneSelf || !strings.ContainsRune("!#$%&'*+-.^_`|~", r) && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
}

// isHeaderValue reports whether s can be the value of an HTTP header.
func isHeaderValue(s string) bool {
	return utf8.ValidString(s) && strings.Trim(s, " \t") == s && !strings.ContainsFunc(s, func(r rune) bool { return r != '\t' && unicode.IsControl(r) })
}

// IsOfDelivery reports whether a header belongs to the delivery and not to the message, because a publisher or
// HTTP itself writes this header. The parameter name must be in lower case.
func IsOfDelivery(name string) bool {
	switch name {
	case "traceparent", "idempotency-key", "host", "content-length", "transfer-encoding", "connection", "keep-alive", "te", "trailer", "upgrade", "expect":
		return true
	}
	return strings.HasPrefix(name, "ce-") || strings.HasPrefix(name, "ce_") || strings.HasPrefix(name, "once-") || strings.HasPrefix(name, "nats-") || strings.HasPrefix(name, "proxy-")
}
