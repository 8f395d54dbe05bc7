// Package seal encrypts data in tables, so that a reader of a table cannot read the data of callers.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/json"
	"errors"
	"fmt"
)

// Encrypter encrypts bytes under a label, which binds them to their row: moved to another row they do not open.
type Encrypter interface {
	Encrypt(plain, label []byte) ([]byte, error)
	Decrypt(encrypted, label []byte) ([]byte, error)
}

// New returns an Encrypter that uses AES-GCM with random nonces, under a key of 16, 24 or 32 bytes.
func New(key []byte) (Encrypter, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	gcm, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	return aesEncrypter{gcm}, nil
}

const version1 = 1 // a version byte, then nonce and AES-GCM ciphertext

type aesEncrypter struct{ gcm cipher.AEAD }

func (e aesEncrypter) Encrypt(plain, label []byte) ([]byte, error) {
	return e.gcm.Seal([]byte{version1}, nil, plain, label), nil
}

func (e aesEncrypter) Decrypt(encrypted, label []byte) ([]byte, error) {
	if len(encrypted) == 0 || encrypted[0] != version1 {
		return nil, errors.New("once: the stored data has a format that this version of once cannot decrypt. Try: the version of once that has stored the data")
	}
	plain, err := e.gcm.Open(nil, nil, encrypted[1:], label)
	if err != nil {
		return nil, errors.New("once: the stored data cannot be decrypted: the encryption key is wrong, the data is damaged, or the data was copied from another row")
	}
	return plain, nil
}

// Label is the label under which the request of an operation is encrypted. The
// key is the stored one: hashed under once.Config.HashKeys.
func Label(scope, storedKey string) []byte { return []byte(scope + "\x00" + storedKey) }

var errNoKey = errors.New("the stored data is encrypted, but Config.Encrypter is not set. Try: set the Encrypter with the key under which the data was stored")

// Message encrypts the headers, from [EncodeHeaders], and the payload of a message for a table, if e is set. Each is bound to label,
// which names the message, and to its column. A missing payload is stored as empty, and not as nil, which would be NULL.
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
		return nil, nil, fmt.Errorf("%w. Try: the encryption key with which the data was stored", err)
	}
	return headers, payload, nil
}

// EncodeHeaders returns the stored form of headers: JSON, or no bytes without headers.
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
