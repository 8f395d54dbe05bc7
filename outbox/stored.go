package outbox

import (
	"fmt"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/seal"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/store/sqlplane"
)

// storedColumns are the columns that scanStored reads, of once_outbox or once_outbox_sent, as package dialect writes them.
const storedColumns = "part, id, topic, KEY, seq, event_id, event_type, source, headers, payload, encrypted, trace, created_at"

// stored is a row of once_outbox.
type stored struct {
	part    int
	id      int64           // grows in the order in which the messages of a key were added
	message message.Message // without its headers; its payload is as it is stored

	headers   []byte
	encrypted bool
}

// scanStored reads storedColumns.
func scanStored(row sqlplane.Row) (s stored, err error) {
	m := &s.message
	var seq *int64
	err = row.Scan(&s.part, &s.id, &m.Topic, &m.Key, &seq, &m.ID, &m.Type, &m.Source, &s.headers, &m.Payload, &s.encrypted, &m.Trace, (*dialect.Time)(&m.CreatedAt))
	if seq != nil {
		m.Seq = *seq
	}
	return s, err
}

// open returns the message that was added. Its error is of this message only, and stays until e
// is another one.
func (s *stored) open(e once.Encrypter) (m message.Message, err error) {
	m = s.message
	headers := s.headers
	if s.encrypted {
		headers, m.Payload, err = seal.OpenMessage(e, label(&m), headers, m.Payload)
	}
	if err == nil {
		m.Headers, err = seal.DecodeHeaders(headers)
	}
	if err != nil {
		return message.Message{}, fmt.Errorf("outbox: the stored message %s of topic %s cannot be read: %w", m.ID, m.Topic, err)
	}
	return m, nil
}

// sealed returns headers and payload of m as they are stored.
func sealed(e once.Encrypter, m *message.Message) (headers, payload []byte, err error) {
	if headers, err = seal.EncodeHeaders(m.Headers); err != nil {
		return nil, nil, err
	}
	return seal.Message(e, label(m), headers, m.Payload)
}

// label binds encrypted headers and payloads to their message: copied into another row they cannot be decrypted.
func label(m *message.Message) string { return "outbox\x00" + m.ID + "\x00" + m.Topic + "\x00" }
