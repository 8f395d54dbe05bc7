package outbox

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/printable"
	"github.com/oncelib/once/message"
)

// checked returns m as the outbox stores it, with defaults for empty fields. If a field is invalid, checked
// returns an error that names the field. The payload is not copied.
func (c *Config) checked(m message.Message, trace string) (message.Message, error) {
	if m.Source == "" {
		m.Source = c.Source
	}
	if m.Trace == "" && message.CheckText("trace", trace, message.MaxText) == nil { // an invalid trace is dropped: a bug of the tracer must not lose an event
		m.Trace = trace
	}
	if m.ID == "" {
		m.ID = once.NewKey()
	}
	// PostgreSQL returns UUIDs in lower case, and IDs are compared as text. The outbox sets the number when it stores the message.
	m.ID, m.Seq = strings.ToLower(m.ID), 0
	switch {
	case m.Topic == "":
		return m, errors.New("the topic is empty. Try: where the message goes, such as \"refunds\"")
	case m.Type == "":
		return m, errors.New("the type is empty. Try: the name of the event, such as \"refund.succeeded\"")
	case m.Type == message.TypeSkipped:
		return m, fmt.Errorf("the type %q is reserved for skipped messages. Try: another type", message.TypeSkipped)
	case !isUUID(m.ID):
		return m, fmt.Errorf("the ID %q is not a UUID. Try: once.NewKey, or no ID", printable.Short(m.ID))
	case len(m.Payload) > c.MaxPayload:
		return m, fmt.Errorf("the payload has %d bytes, and at most %d are allowed. Try: a reference to the data instead of the data, or a larger Config.MaxPayload", len(m.Payload), c.MaxPayload)
	}
	if err := m.Check(); err != nil {
		return m, err
	}
	if m.Source != c.Source { // New has already checked c.Source
		if err := checkSource(m.Source); err != nil {
			return m, err
		}
	}
	var err error
	m.Headers, err = message.CheckHeaders(m.Headers)
	return m, err
}

func checkSource(s string) error {
	if _, err := url.Parse(s); err != nil || strings.Contains(s, " ") {
		return fmt.Errorf("the source %q is not a URI reference. Try: such as \"https://example.com/payments\" or \"payments\"", s)
	}
	return nil
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
