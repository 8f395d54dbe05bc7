// Package keyname makes and checks the keys of operations. It also makes hashes that replace keys in logs and tables.
package keyname

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/oncelib/once/internal/base/printable"
)

// These are limits in bytes. The tables of the SQL stores have the same limits.
const (
	MaxScope = 512
	MaxKey   = 255
)

// New returns a random key: a UUID version 7 (RFC 9562), which sorts by time.
func New() string {
	var u [16]byte
	rand.Read(u[:]) // rand.Read never fails: it ends the process instead
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(time.Now().UnixMilli()))
	copy(u[:6], ms[2:])
	u[6] = u[6]&0x0f | 0x70
	u[8] = u[8]&0x3f | 0x80
	var s [36]byte
	hex.Encode(s[0:8], u[0:4])
	hex.Encode(s[9:13], u[4:6])
	hex.Encode(s[14:18], u[6:8])
	hex.Encode(s[19:23], u[8:10])
	hex.Encode(s[24:36], u[10:16])
	s[8], s[13], s[18], s[23] = '-', '-', '-', '-'
	return string(s[:])
}

// Time returns the time at which a key was made, in milliseconds and by the clock of its maker. ok is false unless the key is
// a UUID of version 7, or ends with one after a colon.
func Time(key string) (t time.Time, ok bool) {
	u := key[strings.LastIndexByte(key, ':')+1:]
	if len(u) != 36 || u[8] != '-' || u[13] != '-' || u[18] != '-' || u[23] != '-' || u[14] != '7' {
		return t, false
	}
	var ms int64
	for i, digits := 0, 0; i < len(u); i++ {
		switch i {
		case 8, 13, 18, 23:
			continue
		}
		d := strings.IndexByte("0123456789abcdef0123456789ABCDEF", u[i])
		if d < 0 || i == 19 && d&0b1100 != 0b1000 {
			return t, false
		}
		if digits++; digits <= 12 {
			ms = ms<<4 | int64(d&15)
		}
	}
	return time.UnixMilli(ms), true
}

// Check returns an error if key cannot be used: a key has 1 to 255 bytes of UTF-8 without control characters.
func Check(key string) error {
	switch {
	case key == "":
		return errors.New("the key is empty")
	case len(key) > MaxKey:
		return fmt.Errorf("the key has %d bytes, and at most %d are allowed", len(key), MaxKey)
	case !printable.Is(key):
		return errors.New("the key contains control characters or is not UTF-8")
	}
	return nil
}

// hashed is the prefix of a hash that is stored in place of a key.
const hashed = "sha256-"

// Hashed returns the hash that is stored instead of key if keys are not stored.
func Hashed(key string) string {
	h := sha256.Sum256([]byte(key))
	return hashed + base64.RawURLEncoding.EncodeToString(h[:])
}

// Hash returns the hash of a key for logs and events.
func Hash(key string) string {
	h := sha256.Sum256([]byte(key))
	return hex.EncodeToString(h[:8])
}

// Hashes returns the hashes of a stored key that may be in logs. If the stored key comes from [Hashed], it contains the hash
// of the original key.
func Hashes(key string) []string {
	if text, ok := strings.CutPrefix(key, hashed); ok {
		if h, err := base64.RawURLEncoding.DecodeString(text); err == nil && len(h) == 32 {
			return []string{hex.EncodeToString(h[:8]), Hash(key)}
		}
	}
	return []string{Hash(key)}
}

// Unquoted reads key as a String of RFC 9651. A header contains the quotation marks, but a record does not.
func Unquoted(key string) (bare string, ok bool) {
	if len(key) < 3 || key[0] != '"' || key[len(key)-1] != '"' {
		return "", false
	}
	return strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(key[1 : len(key)-1]), true
}

// Undo returns the key of the operation that undoes the operation with this key. The ending is stored, so it never changes.
func Undo(key string) string {
	if key += ":undo"; len(key) <= MaxKey {
		return key
	}
	return Shorten(key)
}

// Shorten returns a replacement for a key that is too long: the beginning of the key, and its hash.
func Shorten(key string) string {
	h := sha256.Sum256([]byte(key))
	keep := strings.ToValidUTF8(key[:MaxKey-48], "")
	return keep + "~" + base64.RawURLEncoding.EncodeToString(h[:])
}
