package outbox

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/store/sqlplane"
)

// storedColumns are those that scanStored reads, of once_outbox or once_outbox_sent, as package
// dialect writes them.
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

// errEncrypted is why a message cannot be read without a key.
var errEncrypted = errors.New("it is encrypted, and Config.Encrypter is not set. Try: the key under which it was added")

// open returns the message that was added. Its error is of this message only, and stays until e
// is another one.
func (s *stored) open(e once.Encrypter) (m message.Message, err error) {
	m = s.message
	headers := s.headers
	if s.encrypted {
		if e == nil {
			return message.Message{}, fmt.Errorf("outbox: message %s of topic %s: %w", m.ID, m.Topic, errEncrypted)
		}
		m.Payload, err = e.Decrypt(m.Payload, label(&m, "payload"))
		if err == nil && len(headers) > 0 {
			headers, err = e.Decrypt(headers, label(&m, "headers"))
		}
		if err != nil {
			return message.Message{}, fmt.Errorf("outbox: message %s of topic %s: %w. Try: the key under which it was added", m.ID, m.Topic, err)
		}
	}
	if m.Headers, err = decodeHeaders(headers); err != nil {
		return message.Message{}, fmt.Errorf("outbox: message %s of topic %s: %w", m.ID, m.Topic, err)
	}
	return m, nil
}

// seal encrypts the payload of m and its encoded headers, if e is set.
func seal(e once.Encrypter, m *message.Message, headers []byte) (sealedHeaders, sealedPayload []byte, err error) {
	if e == nil {
		return headers, m.Payload, nil
	}
	if sealedPayload, err = e.Encrypt(m.Payload, label(m, "payload")); err == nil && len(headers) > 0 {
		headers, err = e.Encrypt(headers, label(m, "headers"))
	}
	return headers, sealedPayload, err
}

// label binds what is encrypted to its message: moved to another row or column it does not open.
func label(m *message.Message, column string) []byte {
	return []byte("outbox\x00" + m.ID + "\x00" + m.Topic + "\x00" + column)
}

// encodeHeaders returns the stored form of h: JSON, and nothing if there are none.
func encodeHeaders(h map[string]string) ([]byte, error) {
	if len(h) == 0 {
		return []byte{}, nil
	}
	return json.Marshal(h)
}

// decodeHeaders reads what encodeHeaders wrote.
func decodeHeaders(b []byte) (h map[string]string, err error) {
	if len(b) > 0 {
		if err := json.Unmarshal(b, &h); err != nil {
			return nil, fmt.Errorf("its stored headers are damaged: %w", err)
		}
	}
	return h, nil
}
