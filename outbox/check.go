package outbox

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/printable"
	"github.com/oncelib/once/internal/base/traceparent"
)

// checked returns m as it is stored, with what it leaves open, or what is wrong with it.
// Payload is that of the caller.
func (c *Config) checked(m Message, trace string) (Message, error) {
	if m.Source == "" {
		m.Source = c.Source
	}
	if m.Trace == "" && validText(trace, traceparent.Max) { // an event is not refused for what a tracer says
		m.Trace = trace
	}
	if m.ID == "" {
		m.ID = once.NewKey()
	}
	m.ID = strings.ToLower(m.ID)
	switch {
	case m.Topic == "":
		return m, errors.New("the topic is empty. Try: where the message goes, such as \"refunds\"")
	case m.Type == "":
		return m, errors.New("the type is empty. Try: what has happened, such as \"refund.succeeded\"")
	case m.Type == TypeSkipped:
		return m, fmt.Errorf("the type %q is that of messages that were skipped. Try: another type", TypeSkipped)
	case !isUUID(m.ID):
		return m, fmt.Errorf("the ID %q is not a UUID. Try: once.NewKey, or no ID", cut(m.ID))
	case len(m.Payload) > c.MaxPayload:
		return m, fmt.Errorf("the payload has %d bytes, at most %d are allowed. Try: a reference to the data in place of the data, or Config.MaxPayload", len(m.Payload), c.MaxPayload)
	}
	for _, text := range [...]struct {
		name, value string
		most        int
	}{
		{"topic", m.Topic, MaxTopic}, {"key", m.Key, MaxKey}, {"type", m.Type, MaxType}, {"source", m.Source, MaxSource}, {"trace", m.Trace, traceparent.Max},
	} {
		if err := checkText(text.name, text.value, text.most); err != nil {
			return m, err
		}
	}
	if m.Source != c.Source { // that one was checked by New
		if err := checkSource(m.Source); err != nil {
			return m, err
		}
	}
	var err error
	m.Headers, err = checkedHeaders(m.Headers)
	return m, err
}

// checkText says what is wrong with a text that every database and broker is to take.
func checkText(name, s string, most int) error {
	switch {
	case len(s) > most:
		return fmt.Errorf("the %s has %d bytes, at most %d are allowed. Try: a shorter one, such as a hash of it", name, len(s), most)
	case !validText(s, most):
		return fmt.Errorf("the %s %q contains control characters or is not UTF-8. Try: printable text", name, cut(s))
	}
	return nil
}

func validText(s string, most int) bool { return len(s) <= most && printable.Is(s) }

func checkSource(s string) error {
	if _, err := url.Parse(s); err != nil || strings.Contains(s, " ") {
		return fmt.Errorf("the source %q is not a URI reference. Try: such as \"https://example.com/payments\" or \"payments\"", s)
	}
	return nil
}

// cut is enough of s to be recognised in an error.
func cut(s string) string {
	if len(s) > 64 {
		return s[:64] + "..."
	}
	return s
}

// isUUID reports whether s has the form of a UUID in lower case.
func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		switch b := s[i]; {
		case i == 8 || i == 13 || i == 18 || i == 23:
			if b != '-' {
				return false
			}
		case (b < '0' || b > '9') && (b < 'a' || b > 'f'):
			return false
		}
	}
	return true
}

// checkedHeaders returns a copy of h with names in lower case.
func checkedHeaders(h map[string]string) (map[string]string, error) {
	if len(h) == 0 {
		return h, nil
	}
	lower := make(map[string]string, len(h))
	size := 0
	for _, name := range slices.Sorted(maps.Keys(h)) { // so that the same headers give the same error
		value := h[name]
		size += len(name) + len(value)
		key := strings.ToLower(name)
		switch _, twice := lower[key]; {
		case !isToken(name):
			return nil, fmt.Errorf("the header name %q is not one of HTTP. Try: letters, digits and hyphens", cut(name))
		case isReserved(key):
			return nil, fmt.Errorf("the header %q belongs to the delivery. Try: another name", name)
		case twice:
			return nil, fmt.Errorf("the header %q is there twice, in capitals and in lower case. Try: one of them", name)
		case !isHeaderValue(value):
			return nil, fmt.Errorf("the value of the header %q contains control characters, begins or ends with a blank, or is not UTF-8. Try: printable text, or the payload", name)
		}
		lower[key] = value
	}
	if size > MaxHeaders {
		return nil, fmt.Errorf("the headers have %d bytes, at most %d are allowed. Try: the payload", size, MaxHeaders)
	}
	return lower, nil
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

// isReserved reports whether a publisher or HTTP itself writes this header.
func isReserved(name string) bool {
	switch name {
	case "traceparent", "idempotency-key", "host", "content-length", "transfer-encoding", "connection", "keep-alive", "te", "trailer", "upgrade", "expect":
		return true
	}
	return strings.HasPrefix(name, "ce-") || strings.HasPrefix(name, "ce_") || strings.HasPrefix(name, "once-") || strings.HasPrefix(name, "nats-") || strings.HasPrefix(name, "proxy-")
}
