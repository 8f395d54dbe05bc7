package once

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
// "refund:ch_9ab:1000": whoever means the same thing has the same key, without
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

// Namespace is the front of keys of the form "prefix:environment:version:id",
// such as "billing:live:v1:0190...": keys of two services, of test and live, or
// of two versions of what a key means never meet.
type Namespace struct {
	Prefix      string // the service
	Environment string // live, test, ...
	Version     string // of the meaning of the id
}

// String returns "prefix:environment:version".
func (n Namespace) String() string {
	return n.Prefix + ":" + n.Environment + ":" + n.Version
}

// Key returns the key of id in the namespace. The id may contain colons.
func (n Namespace) Key(id string) string { return n.String() + ":" + id }

// ParseKey splits a namespaced key.
func ParseKey(key string) (n Namespace, id string, err error) {
	p := strings.SplitN(key, ":", 4)
	if len(p) < 4 || p[3] == "" {
		return Namespace{}, "", fmt.Errorf("key %q is not of the form prefix:environment:version:id", key)
	}
	n = Namespace{p[0], p[1], p[2]}
	if err := n.check(); err != nil {
		return Namespace{}, "", fmt.Errorf("key %q: %w", key, err)
	}
	return n, p[3], CheckKey(key)
}

func (n Namespace) owns(key string) bool {
	id, ok := strings.CutPrefix(key, n.String()+":")
	return ok && id != ""
}

func (n Namespace) check() error {
	for _, p := range []string{n.Prefix, n.Environment, n.Version} {
		switch {
		case p == "":
			return errors.New("prefix, environment and version of a namespace must not be empty")
		case strings.Contains(p, ":") || !printable(p):
			return fmt.Errorf("%q cannot be part of a namespace: no colons, no control characters", p)
		}
	}
	return nil
}
