package once

import (
	"fmt"

	"github.com/oncelib/once/internal/base/seal"
)

// Encrypter encrypts the data that is stored with an operation. The label names the operation, and the
// ciphertext is bound to the label: a ciphertext that was copied to the row of another operation
// cannot be decrypted.
type Encrypter interface {
	Encrypt(plain, label []byte) ([]byte, error)
	Decrypt(encrypted, label []byte) ([]byte, error)
}

// NewEncrypter returns an Encrypter that uses AES-GCM with random nonces. The key has 16, 24 or 32 bytes.
func NewEncrypter(key []byte) (Encrypter, error) {
	e, err := seal.New(key)
	if err != nil {
		return nil, fmt.Errorf("once: NewEncrypter: %w", err)
	}
	return e, nil
}
