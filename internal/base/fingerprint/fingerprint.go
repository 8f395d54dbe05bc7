// Package fingerprint hashes the parts of a request, also of one whose body is not in memory.
package fingerprint

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"io"
)

// Size of a hash: a version byte and SHA-256.
const Size = 1 + sha256.Size

// version1 is SHA-256 over the parts, each behind its length as 8 bytes, big-endian.
const version1 = 1

// Of hashes parts. Their boundaries count: ("ab", "c") and ("a", "bc") differ.
func Of(parts ...[]byte) [Size]byte {
	h := sha256.New()
	var size [8]byte // on the stack
	for _, p := range parts {
		binary.BigEndian.PutUint64(size[:], uint64(len(p)))
		h.Write(size[:])
		h.Write(p)
	}
	f := [Size]byte{version1}
	h.Sum(f[1:1])
	return f
}

// Hash is [Of] for parts that come one after the other.
type Hash struct{ sha hash.Hash }

// New returns a hash of no parts.
func New() *Hash { return &Hash{sha256.New()} }

// Part adds a part.
func (h *Hash) Part(p []byte) {
	h.size(int64(len(p)))
	h.sha.Write(p)
}

// PartOf adds a part of size bytes, which it reads.
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
