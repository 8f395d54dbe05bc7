package once

import (
	"fmt"

	"github.com/oncelib/once/internal/base/seal"
)

// Encrypter encrypts the data that is stored with an operation. The label binds the bytes to
// their operation: moved to another row they do not open.
type Encrypter interface {
	Encrypt(plain, label []byte) ([]byte, error)
	Decrypt(encrypted, label []byte) ([]byte, error)
}

// NewEncrypter returns an Encrypter that uses AES-GCM with random nonces, under a key of
// 16, 24 or 32 bytes.
func NewEncrypter(key []byte) (Encrypter, error) {
	e, err := seal.New(key)
	if err != nil {
		return nil, fmt.Errorf("once: NewEncrypter: %w", err)
	}
	return e, nil
}
