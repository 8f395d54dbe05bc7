package once_test

import (
	"bytes"
	"crypto/rand"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/keyname"
	sealing "github.com/oncelib/once/internal/base/seal"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

func sealer(t *testing.T, fill byte) once.Encrypter {
	t.Helper()
	s, err := once.NewEncrypter(bytes.Repeat([]byte{fill}, 32))
	must(t, err)
	return s
}

func TestEncrypterSealsAndOpens(t *testing.T) {
	s := sealer(t, 1)
	label := sealing.Label("scope", "key")
	plain := make([]byte, 1000)
	_, _ = rand.Read(plain)
	for _, p := range [][]byte{nil, {}, {0}, plain} {
		sealed, err := s.Encrypt(p, label)
		must(t, err)
		if len(p) > 8 && bytes.Contains(sealed, p[:8]) {
			t.Error("the plain text shows")
		}
		if got, err := s.Decrypt(sealed, label); err != nil || !bytes.Equal(got, p) {
			t.Errorf("opened %x, %v", got, err)
		}
		twice, err := s.Encrypt(p, label)
		must(t, err)
		if bytes.Equal(sealed, twice) {
			t.Error("the same bytes twice: what is equal can be seen")
		}
		refused := func(what string, s once.Encrypter, sealed, label []byte) {
			t.Helper()
			if got, err := s.Decrypt(sealed, label); err == nil || got != nil {
				t.Errorf("%s: opened %x", what, got)
			}
		}
		refused("another key", sealer(t, 2), sealed, label)
		refused("another operation", s, sealed, sealing.Label("scope", "kez"))
		refused("the boundary moved", s, sealed, sealing.Label("scop", "ekey"))
		refused("no label", s, sealed, nil)
		for i := range sealed {
			bad := bytes.Clone(sealed)
			bad[i] ^= 1
			refused("a bit flipped", s, bad, label)
			refused("cut off", s, sealed[:i], label)
		}
		refused("longer", s, append(bytes.Clone(sealed), 0), label)
	}
	for _, n := range []int{0, 1, 15, 31, 33, 64} {
		if _, err := once.NewEncrypter(make([]byte, n)); err == nil {
			t.Errorf("a key of %d bytes was accepted", n)
		}
	}
}

// What is sealed belongs to the stored key.
func TestRequestsAreSealed(t *testing.T) {
	for _, hash := range []bool{false, true} {
		s, seal := memstore.New(), sealer(t, 1)
		op := once.Operation{Scope: "s", Key: "k", Request: []byte("amount=1000")}
		_, err := once.Do(t.Context(), once.New(s, once.Config{Encrypter: seal, HashKeys: hash}), op, charge("k"))
		must(t, err)
		id := store.ID{Scope: "s", Key: "k"}
		if hash {
			id.Key = keyname.Hashed("k")
		}
		rec, err := s.Read(t.Context(), id)
		must(t, err)
		plain, err := seal.Decrypt(rec.Request, sealing.Label(id.Scope, id.Key))
		if err != nil || !bytes.Equal(plain, op.Request) {
			t.Errorf("opened %q, %v", plain, err)
		}
	}
	s := memstore.New()
	op := once.Operation{Scope: "s", Key: "k", Request: []byte("amount=1000")}
	_, err := once.Do(t.Context(), once.New(s, once.Config{}), op, charge("k"))
	must(t, err)
	if rec, err := s.Read(t.Context(), store.ID{Scope: "s", Key: "k"}); err != nil || rec.Request != nil {
		t.Errorf("kept without a sealer: %q, %v", rec.Request, err)
	}
}

// TestEncryptionLabelsDiffer: a request that is moved to another row cannot be decrypted.
func TestEncryptionLabelsDiffer(t *testing.T) {
	seen := map[string]string{}
	for _, id := range [][2]string{{"s", "k"}, {"s", "l"}, {"t", "k"}, {"s k", ""}, {"", "s k"}, {"sk", ""}, {"", "sk"}} {
		label := string(sealing.Label(id[0], id[1]))
		if other, ok := seen[label]; ok {
			t.Errorf("%q has the label of %s", id, other)
		}
		seen[label] = id[0] + ", " + id[1]
	}
}
