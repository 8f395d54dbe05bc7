package once

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"time"
)

// NewKey returns a random key: a UUID version 7 (RFC 9562), which sorts by time
// and so keeps the index small. Make it once per intent and keep it for every
// retry.
func NewKey() string {
	var u [16]byte
	rand.Read(u[:]) // never fails: it ends the process instead
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

// DeriveKey returns a key made of the business intent, such as
// "refund:ch_9ab:1000": two callers that mean the same thing have the same key, without
// having talked about it. Parts are joined by colons; a colon or percent sign
// inside a part is escaped, so that different parts give different keys. A key
// that would be too long ends in a hash instead.
//
// Such a key lives as long as what it is made of, and its record only as long as its
// retention. If what it names must happen only once ever, as a welcome mail to customer 42,
// set Operation.Retain to [KeepForever]: after the default of 72 h it would happen again.
func DeriveKey(parts ...string) string {
	escaped := make([]string, len(parts))
	for i, p := range parts {
		escaped[i] = escapePart.Replace(p)
	}
	key := strings.Join(escaped, ":")
	if len(key) <= MaxKey {
		return key
	}
	h := sha256.Sum256([]byte(key))
	keep := strings.ToValidUTF8(key[:MaxKey-48], "")
	return keep + "~" + base64.RawURLEncoding.EncodeToString(h[:])
}

// "~" is escaped too: a short key can never look like a shortened one.
var escapePart = strings.NewReplacer("%", "%25", ":", "%3A", "~", "%7E")
