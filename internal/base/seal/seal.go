// Package seal encrypts what tables keep, so that reading a table is not reading what callers have sent.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"errors"
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
		return nil, errors.New("once: not encrypted by this version of once")
	}
	plain, err := e.gcm.Open(nil, nil, encrypted[1:], label)
	if err != nil {
		return nil, errors.New("once: it cannot be decrypted: wrong key, moved from another row, or damaged")
	}
	return plain, nil
}

// Label is the label under which the request of an operation is encrypted. The
// key is the stored one: hashed under once.Config.HashKeys.
func Label(scope, storedKey string) []byte { return []byte(scope + "\x00" + storedKey) }
