package inbox

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/oncelib/once/internal/base/printable"
	"github.com/oncelib/once/message"
)

// checked returns m with what it leaves open, or what is wrong with it. Then it is stored as storable returns it.
func (c *Config) checked(m message.Message) (message.Message, error) {
	if m.Source == "" {
		m.Source = defaultSource
	}
	if !validText(m.Trace) { // a message is not refused for what a tracer says
		m.Trace = ""
	}
	m.CreatedAt = storableTime(m.CreatedAt) // nor for what a clock says
	if m.ID == "" {
		return m, errors.New("the message has no ID. Try: a sender that gives every message one, and keeps it when it sends again")
	}
	if err := m.Check(); err != nil {
		return m, err
	}
	return m, message.CheckHeadersSize(m.Headers, message.MaxReceivedHeaders)
}

const defaultSource = "once"

func validText(s string) bool { return len(s) <= message.MaxText && printable.Is(s) }

// storable returns m as a dead letter can be stored, whatever is wrong with it. The same message gives the
// same one.
func storable(m message.Message) message.Message {
	text := func(s string) string {
		if validText(s) {
			return s
		}
		shown := strings.Map(func(r rune) rune {
			if r == utf8.RuneError || unicode.IsControl(r) {
				return '?'
			}
			return r
		}, s)
		h := sha256.Sum256([]byte(s)) // two keys that are alike after a cut are still two
		mark := "#" + hex.EncodeToString(h[:8])
		return printable.Cut(shown, message.MaxText-len(mark)) + mark
	}
	if !validText(m.ID) || m.ID == "" { // two that are alike after a cut are still two
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
	if message.CheckHeadersSize(m.Headers, message.MaxReceivedHeaders) != nil {
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
