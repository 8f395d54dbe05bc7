package console

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/oncelib/once/store"
)

// sealer encrypts keys in links. Browsers keep links in their history, and proxies write links to their logs. The same text always gives the same
// link.
type sealer struct {
	aead  cipher.AEAD
	nonce []byte // the key from which nonces are made
}

func newSealer(secret []byte) sealer {
	if len(secret) == 0 {
		secret = []byte(rand.Text())
	}
	derive := func(use string) []byte {
		h := hmac.New(sha256.New, secret)
		h.Write([]byte("once console " + use))
		return h.Sum(nil)
	}
	block, err := aes.NewCipher(derive("links"))
	if err == nil {
		var aead cipher.AEAD
		if aead, err = cipher.NewGCM(block); err == nil {
			return sealer{aead, derive("nonces")}
		}
	}
	panic(err) // an error is impossible, because the key has 32 bytes
}

// seal encrypts a text of a kind. The text "" stays "".
func (s sealer) seal(kind, text string) string {
	if text == "" {
		return ""
	}
	h := hmac.New(sha256.New, s.nonce)
	h.Write([]byte(kind + "\x00" + text))
	// A nonce repeats only for the same text of the same kind. It then reveals only that two texts are equal.
	nonce := h.Sum(nil)[:s.aead.NonceSize()]
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nonce, nonce, []byte(text), []byte(kind)))
}

// open decrypts a text of a kind from a link.
func (s sealer) open(kind, sealed string) (text string, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(sealed)
	if n := s.aead.NonceSize(); err == nil && len(b) > n {
		plain, err := s.aead.Open(nil, b[:n], b[n:], []byte(kind))
		return string(plain), err == nil
	}
	return "", sealed == ""
}

// Kinds of encrypted texts.
const (
	sealedOperation = "operation"
	sealedKey       = "key"
	sealedCursor    = "cursor"
	sealedPlace     = "place"
)

func (s sealer) operation(id store.ID) string {
	// The length separates the scope from the key, because both may contain any character.
	return s.seal(sealedOperation, strconv.Itoa(len(id.Scope))+" "+id.Scope+id.Key)
}

func (s sealer) openOperation(sealed string) (id store.ID, ok bool) {
	text, ok := s.open(sealedOperation, sealed)
	length, rest, _ := strings.Cut(text, " ")
	n, err := strconv.Atoi(length)
	if !ok || err != nil || n > len(rest) {
		return id, false
	}
	return store.ID{Scope: rest[:n], Key: rest[n:]}, true
}
