package once_test

import (
	"bytes"
	"encoding/hex"
	"slices"
	"testing"

	"github.com/oncelib/once"
)

// The bytes are stored: they must never change for version 1.
func TestFingerprintIsStable(t *testing.T) {
	f := once.FingerprintOf([]byte("POST"), []byte("/refunds"), nil, []byte(`{"amount":1000}`))
	const want = "01d8963c4dfaf758c5ba8939349d412cfc68041383a91fe96dec5fd75d7bb47ab5"
	if got := hex.EncodeToString(f[:]); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// FuzzFingerprintOf: other parts, other fingerprint, wherever the boundaries are.
// The two lists are cut out of one text each, at zero bytes.
func FuzzFingerprintOf(f *testing.F) {
	f.Add([]byte("ab\x00c"), []byte("a\x00bc"))
	f.Add([]byte("a"), []byte("a\x00"))
	f.Add([]byte(""), []byte("\x00"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		p, q := bytes.Split(a, []byte{0}), bytes.Split(b, []byte{0})
		x, y := once.FingerprintOf(p...), once.FingerprintOf(q...)
		if (x == y) != slices.EqualFunc(p, q, bytes.Equal) {
			t.Errorf("%q and %q: %x and %x", p, q, x, y)
		}
		if x == (once.Fingerprint{}) || x == once.FingerprintOf() {
			t.Errorf("%q has the fingerprint of nothing", p)
		}
	})
}
