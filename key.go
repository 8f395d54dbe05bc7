package once

import (
	"strings"

	"github.com/oncelib/once/internal/base/keyname"
)

// NewKey returns a random key: a UUID version 7 (RFC 9562), which sorts by time
// and so keeps the index small. Make it once per intent and keep it for every
// retry.
func NewKey() string { return keyname.New() }

// DeriveKey returns a key made of the business intent, such as
// "refund:ch_9ab:1000": two callers that mean the same thing have the same key, without
// having talked about it. Parts are joined by colons; a colon or percent sign
// inside a part is escaped, so that different parts give different keys. A key
// that would be too long ends in a hash instead.
//
// Such a key means the same as long as the facts exist that it is made of, but its record is kept only
// for its retention. If the work must happen only once ever, as a welcome mail to customer 42,
// set Operation.Retain to [Forever]: after the default of 72 h it would happen again.
func DeriveKey(parts ...string) string {
	escaped := make([]string, len(parts))
	for i, p := range parts {
		escaped[i] = escapePart.Replace(p)
	}
	key := strings.Join(escaped, ":")
	if len(key) <= MaxKey {
		return key
	}
	return keyname.Shorten(key)
}

// "~" is escaped too: a short key can never look like a shortened one.
var escapePart = strings.NewReplacer("%", "%25", ":", "%3A", "~", "%7E")
