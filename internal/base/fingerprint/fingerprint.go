// Package fingerprint hashes the parts of a request. The body need not be in memory.
package fingerprint

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"io"
)

// Size is the size of a fingerprint: a version byte and SHA-256.
const Size = 1 + sha256.Size

const (
	// version1 is SHA-256 over the parts. Before each part comes its length as 8 bytes, big-endian.
	version1 = 1

	// ruled is the first 28 bytes of version1, over the parts of a request that a rule has chosen. The last 4 bytes
	// identify the rule.
	ruled = 2

	ruleSize = 4
)

// Ruled adds a rule to f, which is the hash of the parts that the rule has chosen. The result is only compared with
// fingerprints of the same rule.
func Ruled(f, rule [Size]byte) [Size]byte {
	f[0] = ruled
	copy(f[Size-ruleSize:], rule[1:])
	return f
}

// Differ reports whether the fingerprints prove that two requests are different. It does not compare fingerprints that are
// empty, or that have different versions or rules: they prove nothing.
func Differ(a, b []byte) bool {
	switch {
	case len(a) == 0, len(b) == 0, a[0] != b[0]:
		return false
	case a[0] == ruled && len(a) == Size && len(b) == Size && !bytes.Equal(a[Size-ruleSize:], b[Size-ruleSize:]):
		return false
	}
	return !bytes.Equal(a, b)
}

// Of hashes parts. The boundaries between the parts count: ("ab", "c") and ("a", "bc") have different hashes.
func Of(parts ...[]byte) [Size]byte {
	h := sha256.New()
	var size [8]byte // an array that stays on the stack
	for _, p := range parts {
		binary.BigEndian.PutUint64(size[:], uint64(len(p)))
		h.Write(size[:])
		h.Write(p)
	}
	f := [Size]byte{version1}
	h.Sum(f[1:1])
	return f
}

// Hash is like [Of], for parts that are added one after the other.
type Hash struct{ sha hash.Hash }

// New returns a hash of no parts.
func New() *Hash { return &Hash{sha256.New()} }

// Part adds a part.
func (h *Hash) Part(p []byte) {
	h.size(int64(len(p)))
	h.sha.Write(p)
}

// PartOf adds a part of size bytes, which it reads from r.
func (h *Hash) PartOf(r io.Reader, size int64) error {
	h.size(size)
	_, err := io.CopyN(h.sha, r, size)
	return err
}

// Sum returns the hash.
func (h *Hash) Sum() [Size]byte {
	f := [Size]byte{version1}
	h.sha.Sum(f[1:1])
	return f
}

func (h *Hash) size(n int64) {
	var size [8]byte
	binary.BigEndian.PutUint64(size[:], uint64(n))
	h.sha.Write(size[:])
}
