package seal

import (
	"encoding/json"
	"errors"
	"fmt"
)

var errNoKey = errors.New("it is encrypted, and Config.Encrypter is not set. Try: the key under which it was stored")

// Message encrypts what a table keeps of a message, if e is set: its headers, from [EncodeHeaders], and its payload. Each is bound to label,
// which names the message, and to its column. No payload is empty, and not nil, which would be NULL.
func Message(e Encrypter, label string, headers, payload []byte) (sealedHeaders, sealedPayload []byte, err error) {
	if e == nil {
		return headers, append([]byte{}, payload...), nil // the caller may change it, and the statement may run later
	}
	if headers, err = e.Encrypt(headers, []byte(label+"headers")); err == nil {
		payload, err = e.Encrypt(payload, []byte(label+"payload"))
	}
	if err != nil {
		return nil, nil, err
	}
	return headers, payload, nil
}

// OpenMessage decrypts what Message has encrypted. Headers that are empty were stored before empty ones were encrypted.
func OpenMessage(e Encrypter, label string, headers, payload []byte) (plainHeaders, plainPayload []byte, err error) {
	if e == nil {
		return nil, nil, errNoKey
	}
	if len(headers) > 0 {
		headers, err = e.Decrypt(headers, []byte(label+"headers"))
	}
	if err == nil {
		payload, err = e.Decrypt(payload, []byte(label+"payload"))
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w. Try: the key under which it was stored", err)
	}
	return headers, payload, nil
}

// EncodeHeaders returns the stored form of headers: JSON, and nothing if there are none.
func EncodeHeaders(h map[string]string) ([]byte, error) {
	if len(h) == 0 {
		return []byte{}, nil
	}
	return json.Marshal(h)
}

// DecodeHeaders reads what EncodeHeaders wrote.
func DecodeHeaders(b []byte) (h map[string]string, err error) {
	if len(b) > 0 {
		if err := json.Unmarshal(b, &h); err != nil {
			return nil, fmt.Errorf("the stored headers are damaged: %w", err)
		}
	}
	return h, nil
}
