package once

import (
	"crypto/sha256"
	"encoding/binary"
)

// Fingerprint is a version byte and a hash of what was asked. Fingerprints of
// different versions are not compared: a later version of once that hashes
// differently does not refuse operations that an earlier one has stored.
type Fingerprint [33]byte

// fingerprintV1 is SHA-256 over the parts, each behind its length as 8 bytes,
// big-endian.
const fingerprintV1 = 1

// FingerprintOf hashes parts. Their boundaries count: ("ab", "c") and ("a", "bc")
// differ.
func FingerprintOf(parts ...[]byte) Fingerprint {
	h := sha256.New()
	var size [8]byte
	for _, p := range parts {
		binary.BigEndian.PutUint64(size[:], uint64(len(p)))
		h.Write(size[:])
		h.Write(p)
	}
	var f Fingerprint
	f[0] = fingerprintV1
	h.Sum(f[1:1])
	return f
}

// IsZero reports whether f is the zero fingerprint, which is never compared.
func (f Fingerprint) IsZero() bool { return f == Fingerprint{} }

// matches reports whether a request with f may have the result of one that was
// stored with s.
func (f Fingerprint) matches(s []byte) bool {
	return f.IsZero() || len(s) == 0 || s[0] != f[0] || string(s) == string(f[:])
}
