package once

import (
	"strings"

	"github.com/oncelib/once/internal/base/keyname"
)

// NewKey returns a random key: a UUID version 7 (RFC 9562). Keys of NewKey sort by time, which keeps the
// index of the database small. Make one key for each intent (each request of a user), and send the same key
// with every retry.
func NewKey() string { return keyname.New() }

// DeriveKey returns a key that names the business intent, such as "refund:ch_9ab:1000". Two callers that pass
// the same parts get the same key, although the callers do not communicate. DeriveKey joins the parts by
// colons. DeriveKey escapes each colon and percent sign inside a part, so that different parts give different
// keys. If a key would be longer than [MaxKey], DeriveKey replaces the end of the key by a hash.
//
// A program can derive the same key again as long as the order or payment that the key names exists, but the
// record of the operation is kept only for the retention. If the work must never happen twice, such as the
// welcome mail to customer 42, set Operation.Retain to [Forever]. If Retain has its default of 72 h, a retry
// after 72 h executes the work again.
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

// escapePart also escapes "~", so that a short key can never look like a shortened key.
var escapePart = strings.NewReplacer("%", "%25", ":", "%3A", "~", "%7E")
