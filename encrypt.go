package once

import (
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"fmt"
)

// Sealer encrypts what is kept with an operation. The label binds the bytes to
// their operation: moved to another row they do not open.
type Sealer interface {
	Seal(plain, label []byte) ([]byte, error)
	Open(sealed, label []byte) ([]byte, error)
}

// NewSealer returns a Sealer that uses AES-GCM with random nonces, under a key of
// 16, 24 or 32 bytes.
func NewSealer(key []byte) (Sealer, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("once: NewSealer: %w", err)
	}
	gcm, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("once: NewSealer: %w", err)
	}
	return aesSealer{gcm}, nil
}

const sealedV1 = 1 // a version byte, then nonce and AES-GCM ciphertext

type aesSealer struct{ gcm cipher.AEAD }

func (s aesSealer) Seal(plain, label []byte) ([]byte, error) {
	return s.gcm.Seal([]byte{sealedV1}, nil, plain, label), nil
}

func (s aesSealer) Open(sealed, label []byte) ([]byte, error) {
	if len(sealed) == 0 || sealed[0] != sealedV1 {
		return nil, errors.New("once: not sealed by this version")
	}
	plain, err := s.gcm.Open(nil, nil, sealed[1:], label)
	if err != nil {
		return nil, errors.New("once: the sealed request does not open: wrong key, wrong operation, or damaged")
	}
	return plain, nil
}

// SealLabel is the label under which the request of an operation is sealed. The
// key is the stored one: hashed under Config.HashKeys.
func SealLabel(scope, storedKey string) []byte {
	return []byte(scope + "\x00" + storedKey)
}
