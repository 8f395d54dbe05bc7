package wire

import (
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/internal/base/printable"
)

// KeyError says why a request has no usable key. Its text goes to the client.
type KeyError struct {
	Detail string

	// MayBeUsed says that the sent text may name an operation all the same, so that
	// starting again with another key is not safe.
	MayBeUsed bool
}

// Error implements [error].
func (e *KeyError) Error() string { return e.Detail }

var errEmptyKey = &KeyError{"The idempotency key is empty.", false}

// OpaqueKey returns key if it can be used as it is, without a syntax around it.
func OpaqueKey(key string) (string, error) {
	if key == "" {
		return "", errEmptyKey
	}
	if err := keyname.Check(key); err != nil {
		return "", &KeyError{"The idempotency key cannot be used: " + err.Error() + ".", false}
	}
	return key, nil
}

// ParseKey reads the value of a KeyHeader: a String of RFC 9651, whose parameters do not
// matter, or, unless strict, the key itself in printable ASCII. A bare key has no quotation
// mark, comma or semicolon in it: it could be half of something else.
func ParseKey(value string, strict bool) (string, error) {
	key := strings.Trim(value, " \t")
	if key == "" {
		return "", errEmptyKey
	}
	if key[0] == '"' {
		text, err := parseString(key)
		if err != nil {
			return "", &KeyError{"The idempotency key is malformed: " + err.Error() + `. Send it as "key", with \ before each \ and ".`, true}
		}
		return OpaqueKey(text)
	}
	if strict {
		return "", &KeyError{`Send the idempotency key in quotation marks: "key".`, true}
	}
	for i := range len(key) {
		switch c := key[i]; {
		case c < 0x20 || c > 0x7e:
			return "", &KeyError{"The idempotency key has characters that are not printable ASCII.", false}
		case c == '"' || c == ',' || c == ';':
			return "", &KeyError{`An idempotency key with a quotation mark, comma or semicolon must be sent as "key", with \ before each \ and ".`, true}
		}
	}
	return OpaqueKey(key)
}

// QuoteKey returns key as a String of RFC 9651.
func QuoteKey(key string) string { return `"` + escape.Replace(key) + `"` }

var escape = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// NeedsQuotes reports whether key can only be sent as [QuoteKey] writes it.
func NeedsQuotes(key string) bool { return strings.ContainsAny(key, `",; \`) }

// Scope joins principal and route so that no two pairs give the same scope. The text of a
// principal comes from outside: it must not be able to end in a route.
func Scope(principal, route string) string {
	if !printable.Is(route) {
		route = url.PathEscape(route)
	}
	scope := url.PathEscape(principal) + " " + route
	if len(scope) < keyname.MaxScope {
		return scope
	}
	h := sha256.Sum256([]byte(scope))
	end := "~" + base64.RawURLEncoding.EncodeToString(h[:])
	head := scope[:keyname.MaxScope-len(end)]
	for !utf8.ValidString(head) { // cut in the middle of a character
		head = head[:len(head)-1]
	}
	return head + strings.Repeat("~", keyname.MaxScope-len(end)-len(head)) + end // exactly MaxScope: no short scope looks like this
}

// ForwardPhase is the name of the call by which package gateway forwards a request. It is part of the key of that call: it never changes.
const ForwardPhase = "forward"

// IsForward reports whether a phase of an operation with this name forwards a request in a gateway: its names begin with that of the service.
func IsForward(name, phase string) bool {
	service, route, _ := strings.Cut(name, " ")
	method, pattern, _ := strings.Cut(route, " ")
	return phase == ForwardPhase && service != "" && method != "" && strings.Contains(pattern, "/")
}

// ParseScope returns the principal and the route of a scope. Of a scope that was too long and ends in a hash neither is whole:
// [Scope] makes another one of them.
func ParseScope(scope string) (principal, route string, ok bool) {
	principal, route, ok = strings.Cut(scope, " ") // which no principal has, escaped
	principal, err := url.PathUnescape(principal)
	return principal, route, ok && principal != "" && err == nil
}
