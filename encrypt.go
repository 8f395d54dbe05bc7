package once

import (
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"fmt"
)

// Encrypter encrypts what is kept with an operation. The label binds the bytes to
// their operation: moved to another row they do not open.
type Encrypter interface {
	Encrypt(plain, label []byte) ([]byte, error)
	Decrypt(encrypted, label []byte) ([]byte, error)
}

// NewEncrypter returns an Encrypter that uses AES-GCM with random nonces, under a key of
// 16, 24 or 32 bytes.
func NewEncrypter(key []byte) (Encrypter, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("once: NewEncrypter: %w", err)
	}
	gcm, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("once: NewEncrypter: %w", err)
	}
	return aesEncrypter{gcm}, nil
}

const encryptedV1 = 1 // a version byte, then nonce and AES-GCM ciphertext

type aesEncrypter struct{ gcm cipher.AEAD }

func (s aesEncrypter) Encrypt(plain, label []byte) ([]byte, error) {
	return s.gcm.Seal([]byte{encryptedV1}, nil, plain, label), nil
}

func (s aesEncrypter) Decrypt(encrypted, label []byte) ([]byte, error) {
	if len(encrypted) == 0 || encrypted[0] != encryptedV1 {
		return nil, errors.New("once: not encrypted by this version of once")
	}
	plain, err := s.gcm.Open(nil, nil, encrypted[1:], label)
	if err != nil {
		return nil, errors.New("once: it cannot be decrypted: wrong key, moved from another row, or damaged")
	}
	return plain, nil
}

// EncryptionLabel is the label under which the request of an operation is encrypted. The
// key is the stored one: hashed under Config.HashKeys.
func EncryptionLabel(scope, storedKey string) []byte {
	return []byte(scope + "\x00" + storedKey)
}
