package webhook

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"sync"
)

// strictly is base64 without unused bits that are not zero, so that each signature has only one valid text.
var strictly = base64.StdEncoding.Strict()

// key is the secret of an HMAC. The key pools its HMAC states, because a new state costs more time than the
// hash of a short body.
type key struct{ pool sync.Pool }

// mac is the state of an HMAC, with buffers for the signatures that are compared.
type mac struct {
	hash      hash.Hash
	text      []byte
	sum, sent []byte
}

func newKey(h func() hash.Hash, secret []byte) *key {
	k := &key{}
	k.pool.New = func() any { return &mac{hash: hmac.New(h, secret)} }
	return k
}

// sum computes the HMAC of s. The caller must put m back into the pool.
func (k *key) sum(f *form, s *signed) (m *mac) {
	m, _ = k.pool.Get().(*mac)
	// The state comes from the pool, and may have hashed another request.
	m.hash.Reset()
	m.text = s.appendHead(m.text[:0], f)
	m.hash.Write(m.text)
	m.hash.Write(s.body)
	m.text = s.appendTail(m.text[:0], f)
	m.hash.Write(m.text)
	m.sum = m.hash.Sum(m.sum[:0])
	return m
}

// matches reports whether one of the signatures of s was made with k. It always compares all of them.
func (k *key) matches(f *form, s *signed) bool {
	m := k.sum(f, s)
	defer k.pool.Put(m)
	// No early return: the time must not show which signature was right.
	equal := 0
	for _, text := range s.list[:s.n] {
		if !m.decode(f.encoding, text) {
			continue
		}
		equal |= subtle.ConstantTimeCompare(m.sent, m.sum)
	}
	return equal == 1
}

// decode decodes a signature into m.sent. It refuses a text whose length differs from the length of a
// signature, without decoding it.
func (m *mac) decode(e Encoding, text string) bool {
	length := hex.EncodedLen(len(m.sum))
	if e == Base64 {
		length = base64.StdEncoding.EncodedLen(len(m.sum))
	}
	if len(text) != length {
		return false
	}
	m.text = append(m.text[:0], text...)
	if cap(m.sent) < length {
		m.sent = make([]byte, length)
	}
	var n int
	var err error
	if e == Base64 {
		n, err = strictly.Decode(m.sent[:length], m.text)
	} else {
		n, err = hex.Decode(m.sent[:length], m.text)
	}
	m.sent = m.sent[:n]
	return err == nil
}

// publicKey verifies signatures v1a of the Standard scheme.
type publicKey ed25519.PublicKey

// matches reports whether one of the signatures of s was made with the private key of k.
func (k publicKey) matches(f *form, s *signed) bool {
	if s.nPublic == 0 {
		return false
	}
	text := make([]byte, 0, len(s.id)+len(s.stamp)+len(s.body)+8)
	text = append(s.appendHead(text, f), s.body...)
	valid := false
	for _, item := range s.public[:s.nPublic] {
		signature, err := strictly.DecodeString(item)
		if err == nil && ed25519.Verify(ed25519.PublicKey(k), text, signature) {
			valid = true
		}
	}
	return valid
}
