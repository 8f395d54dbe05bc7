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

// checked returns m with defaults for empty fields, or an error that names the wrong field. A message with an
// error can still become a dead letter: see storable.
func (c *Config) checked(m message.Message) (message.Message, error) {
	if m.Source == "" {
		m.Source = defaultSource
	}
	if !validText(m.Trace) { // the trace is dropped, because a wrong trace is no reason to refuse the message
		m.Trace = ""
	}
	m.CreatedAt = storableTime(m.CreatedAt) // a wrong clock of the sender is no reason to refuse the message either
	if m.ID == "" {
		return m, errors.New("the message has no ID. Try: a sender that gives every message an ID, and uses the same ID when it sends the message again")
	}
	if err := m.Check(); err != nil {
		return m, err
	}
	return m, message.CheckHeadersSize(m.Headers, message.MaxReceivedHeaders)
}

const defaultSource = "once"

func validText(s string) bool { return len(s) <= message.MaxText && printable.Is(s) }

// storable changes m so that m can be stored as a dead letter, whatever is wrong with m. The result depends
// only on m, so a second delivery of m makes the same dead letter.
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
		h := sha256.Sum256([]byte(s)) // two long keys with the same beginning stay different
		mark := "#" + hex.EncodeToString(h[:8])
		return printable.Cut(shown, message.MaxText-len(mark)) + mark
	}
	if !validText(m.ID) || m.ID == "" { // two long IDs with the same beginning stay different
		h := sha256.New()
		h.Write([]byte(m.ID))
		// The zero byte separates the ID from the payload, so that two different pairs do not have the same hash.
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
	// Headers that are too large are dropped. The ID and the payload are enough to find the message at its sender.
	if message.CheckHeadersSize(m.Headers, message.MaxReceivedHeaders) != nil {
		m.Headers = nil
	}
	return m
}

// storableTime returns t, or the zero time if some database cannot store t.
func storableTime(t time.Time) time.Time {
	if year := t.UTC().Year(); year < 1 || year > 9999 {
		return time.Time{}
	}
	return t
}
