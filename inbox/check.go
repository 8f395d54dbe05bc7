package inbox

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/oncelib/once/internal/base/printable"
	"github.com/oncelib/once/internal/base/traceparent"
)

// checked returns m with what it leaves open, or what is wrong with it. ok is false if it cannot be stored
// as it is: see storable.
func (c *Config) checked(m Message) (Message, error) {
	if m.Source == "" {
		m.Source = defaultSource
	}
	if !validText(m.Trace, traceparent.Max) { // a message is not refused for what a tracer says
		m.Trace = ""
	}
	m.CreatedAt = storableTime(m.CreatedAt) // nor for what a clock says
	switch {
	case m.ID == "":
		return m, errors.New("the message has no ID. Try: a sender that gives every message one, and keeps it when it sends again")
	case m.Seq < 0:
		return m, fmt.Errorf("the Seq is %d. Try: 1, 2, 3, ... or 0 for none", m.Seq)
	}
	for _, text := range [...]struct {
		name, value string
		most        int
	}{{"ID", m.ID, MaxID}, {"source", m.Source, MaxSource}, {"topic", m.Topic, MaxTopic}, {"key", m.Key, MaxKey}, {"type", m.Type, MaxType}} {
		if err := checkText(text.name, text.value, text.most); err != nil {
			return m, err
		}
	}
	if n := headersSize(m.Headers); n > MaxHeaders {
		return m, fmt.Errorf("the headers have %d bytes, at most %d are allowed. Try: the payload", n, MaxHeaders)
	}
	return m, nil
}

const defaultSource = "once"

func headersSize(h map[string]string) (n int) {
	for name, value := range h {
		n += len(name) + len(value)
	}
	return n
}

// checkText says what is wrong with a text that every database is to take.
func checkText(name, s string, most int) error {
	switch {
	case len(s) > most:
		return fmt.Errorf("the %s has %d bytes, at most %d are allowed. Try: a shorter one, such as a hash of it", name, len(s), most)
	case !validText(s, most):
		return fmt.Errorf("the %s %q contains control characters or is not UTF-8. Try: printable text", name, cut(s, 64))
	}
	return nil
}

func validText(s string, most int) bool { return len(s) <= most && printable.Is(s) }

// storable returns m as a dead letter can be stored, whatever is wrong with it. The same message gives the
// same one.
func storable(m Message) Message {
	const most = 255 // of all texts
	text := func(s string) string {
		if validText(s, most) {
			return s
		}
		printable := strings.Map(func(r rune) rune {
			if r == utf8.RuneError || unicode.IsControl(r) {
				return '?'
			}
			return r
		}, s)
		h := sha256.Sum256([]byte(s)) // two keys that are alike after a cut are still two
		mark := "#" + hex.EncodeToString(h[:8])
		return cut(printable, most-len(mark)) + mark
	}
	if !validText(m.ID, MaxID) || m.ID == "" { // two that are alike after a cut are still two
		h := sha256.New()
		h.Write([]byte(m.ID))
		h.Write([]byte{0})
		h.Write(m.Payload)
		m.ID = "sha256:" + hex.EncodeToString(h.Sum(nil))
	}
	if m.Source == "" {
		m.Source = defaultSource
	}
	m.Source, m.Topic, m.Key, m.Type = text(m.Source), text(m.Topic), text(m.Key), text(m.Type)
	m.Trace = text(m.Trace)
	m.Seq = max(0, m.Seq)
	m.CreatedAt = storableTime(m.CreatedAt)
	if headersSize(m.Headers) > MaxHeaders {
		m.Headers = nil
	}
	return m
}

// storableTime returns t, or zero if it is one that a database refuses.
func storableTime(t time.Time) time.Time {
	if year := t.UTC().Year(); year < 1 || year > 9999 {
		return time.Time{}
	}
	return t
}

// cut returns at most the first bytes of s, as whole characters.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}
