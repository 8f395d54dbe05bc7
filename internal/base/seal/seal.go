// Package seal encrypts data in tables, so that a reader of a table cannot read the data of callers.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/json"
	"errors"
	"fmt"
)

// Encrypter encrypts bytes together with a label. The label binds the bytes to their row: in another row they cannot be
// decrypted.
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

// Label returns the label of the encrypted request of an operation. storedKey is the key in the record, which is hashed if
// once.Config.HashKeys is set.
func Label(scope, storedKey string) []byte { return []byte(scope + "\x00" + storedKey) }

var errNoKey = errors.New("the stored data is encrypted, but Config.Encrypter is not set. Try: set the Encrypter with the key under which the data was stored")

// Message encrypts the headers (from [EncodeHeaders]) and the payload of a message, if e is not nil. Each is bound to its
// column and to label, which identifies the message. A missing payload is stored as an empty one, because nil would be
// NULL.
func Message(e Encrypter, label string, headers, payload []byte) (sealedHeaders, sealedPayload []byte, err error) {
	if e == nil {
		return headers, append([]byte{}, payload...), nil // a copy, because the caller may change the payload before the statement runs
	}
	if headers, err = e.Encrypt(headers, []byte(label+"headers")); err == nil {
		payload, err = e.Encrypt(payload, []byte(label+"payload"))
	}
	if err != nil {
		return nil, nil, err
	}
	return headers, payload, nil
}

// OpenMessage decrypts data that Message has encrypted. Empty headers come from an earlier release, which did not encrypt
// empty headers.
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

// EncodeHeaders returns the stored form of headers: JSON, or no bytes if there are no headers.
func EncodeHeaders(h map[string]string) ([]byte, error) {
	if len(h) == 0 {
		return []byte{}, nil
	}
	return json.Marshal(h)
}

// DecodeHeaders reads the form that EncodeHeaders returns.
func DecodeHeaders(b []byte) (h map[string]string, err error) {
	if len(b) > 0 {
		if err := json.Unmarshal(b, &h); err != nil {
			return nil, fmt.Errorf("the stored headers are damaged: %w", err)
		}
	}
	return h, nil
}
