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

// KeyError says why a request has no usable key. The client gets its text.
type KeyError struct {
	Detail string

	// MayBeUsed says that an operation may exist under the sent text. Then a new attempt with another key is not safe.
	MayBeUsed bool
}

// Error implements [error].
func (e *KeyError) Error() string { return e.Detail }

var errEmptyKey = &KeyError{"The idempotency key is empty.", false}

// OpaqueKey returns key if it can be used unchanged. The key has no quotation marks around it.
func OpaqueKey(key string) (string, error) {
	if key == "" {
		return "", errEmptyKey
	}
	if err := keyname.Check(key); err != nil {
		return "", &KeyError{"The idempotency key cannot be used: " + err.Error() + ".", false}
	}
	return key, nil
}

// ParseKey reads the value of a KeyHeader: a String of RFC 9651, whose parameters are ignored. Unless strict is true, the
// value may also be the bare key in printable ASCII. A bare key must not contain a quotation mark, a comma or a semicolon,
// because it could be a part of a longer value.
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

// NeedsQuotes reports whether key can only be sent in the form of [QuoteKey].
func NeedsQuotes(key string) bool { return strings.ContainsAny(key, `",; \`) }

// Scope joins a principal and a route, so that two different pairs never have the same scope. A principal comes from outside,
// so its text must not look like the end of a route.
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
	for !utf8.ValidString(head) { // the cut was in the middle of a character
		head = head[:len(head)-1]
	}
	return head + strings.Repeat("~", keyname.MaxScope-len(end)-len(head)) + end // exactly MaxScope bytes, so that no short scope can be the same
}

// ForwardPhase is the name of the call with which package gateway forwards a request. It is a part of the key of this call, so
// it never changes.
const ForwardPhase = "forward"

// IsForward reports whether a phase of an operation forwards a request in a gateway. The name of such an operation begins
// with the name of the service.
func IsForward(name, phase string) bool {
	service, route, _ := strings.Cut(name, " ")
	method, pattern, _ := strings.Cut(route, " ")
	return phase == ForwardPhase && service != "" && method != "" && strings.Contains(pattern, "/")
}

// ParseScope returns the principal and the route of a scope. A scope that was too long ends with a hash, and neither part is
// complete then: [Scope] returns another scope for these parts.
func ParseScope(scope string) (principal, route string, ok bool) {
	principal, route, ok = strings.Cut(scope, " ") // an escaped principal contains no space
	principal, err := url.PathUnescape(principal)
	return principal, route, ok && principal != "" && err == nil
}
