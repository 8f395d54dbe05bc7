package home_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/oncelib/once/home"
	"github.com/oncelib/once/internal/base/wire"
)

// TestTenantOf: the tenant of a scope is the one whose operations a move takes along, and no other tenant's.
func TestTenantOf(t *testing.T) {
	scopes := map[string]string{
		"acme": "acme", "acme/payments": "acme", "acme POST /x": "acme", "acme%2Fuser POST /x": "acme", "acme%20b x": "acme b",
		"saga/acme": "acme", "saga/acme/x": "acme", "gateway/acme POST /x": "acme", "acme2": "acme2", "acme.b/x": "acme.b", "": "", "a%zz": "", "%61cme": "",
		wire.Scope("acme", "POST /x"): "acme", wire.Scope("acme/user 7", "POST /x"): "acme", wire.Scope("acme/"+strings.Repeat("u", 900), "POST /x"): "acme",
		wire.Scope("50% & more", "/"): "50% & more",
	}
	for scope, want := range scopes {
		if got := home.TenantOf(scope); got != want {
			t.Errorf("%q has the tenant %q, want %q", scope, got, want)
		}
	}
	for _, tenant := range []string{"acme", "acme b", "acme2", "acme.b", "50% & more"} {
		for scope, of := range scopes {
			if taken := slices.ContainsFunc(home.Spans(tenant), func(s [2]string) bool { return s[0] <= scope && scope < s[1] }); taken != (of == tenant) {
				t.Errorf("%q goes along with %q: %t", scope, tenant, taken)
			}
		}
	}
}

// FuzzTenantOf: whatever a scope is, it goes along with its own tenant.
func FuzzTenantOf(f *testing.F) {
	for _, s := range []string{"acme POST /x", "acme%2Fx", "saga/acme", "saga/gateway/x", "a%20b", "\xff", "%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, scope string) {
		tenant := home.TenantOf(scope)
		if tenant == "" || strings.ContainsFunc(scope, func(r rune) bool { return r < ' ' || r == 0xFFFD }) {
			return
		}
		if !slices.ContainsFunc(home.Spans(tenant), func(s [2]string) bool { return s[0] <= scope && scope < s[1] }) {
			t.Errorf("%q has the tenant %q (%q), and does not go along with it", scope, tenant, url.PathEscape(tenant))
		}
	})
}
