package once

import "github.com/oncelib/once/internal/base/fingerprint"

// Fingerprint is a version byte and a hash of what was asked. Fingerprints of
// different versions are not compared: a later version of once that hashes
// differently does not refuse operations that an earlier one has stored.
type Fingerprint [33]byte

// FingerprintOf hashes parts. Their boundaries count: ("ab", "c") and ("a", "bc")
// differ.
func FingerprintOf(parts ...[]byte) Fingerprint { return fingerprint.Of(parts...) }

// IsZero reports whether f is the zero fingerprint, which is never compared.
func (f Fingerprint) isZero() bool { return f == Fingerprint{} }

// matches reports whether a request with f may have the result of one that was
// stored with s.
func (f Fingerprint) matches(s []byte) bool {
	return f.isZero() || len(s) == 0 || s[0] != f[0] || string(s) == string(f[:])
}
