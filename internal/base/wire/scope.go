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

// ParseScope returns the principal and the route of a scope. Of a scope that was too long and ends in a hash neither is whole:
// [Scope] makes another one of them.
func ParseScope(scope string) (principal, route string, ok bool) {
	principal, route, ok = strings.Cut(scope, " ") // which no principal has, escaped
	principal, err := url.PathUnescape(principal)
	return principal, route, ok && principal != "" && err == nil
}
