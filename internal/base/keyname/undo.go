package keyname

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
)

// Undo returns the key of the operation that undoes the one with this key. The end is stored: it never changes.
func Undo(key string) string {
	if key += ":undo"; len(key) <= MaxKey {
		return key
	}
	return Shorten(key)
}

// Shorten returns a key in place of one that is too long: its beginning, and its hash.
func Shorten(key string) string {
	h := sha256.Sum256([]byte(key))
	keep := strings.ToValidUTF8(key[:MaxKey-48], "")
	return keep + "~" + base64.RawURLEncoding.EncodeToString(h[:])
}
