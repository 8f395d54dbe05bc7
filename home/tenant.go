package home

import (
	"net/url"
	"strings"

	prefixes "github.com/oncelib/once/internal/base/prefix"
	"github.com/oncelib/once/internal/owner"
)

// owners are the texts with which a scope may begin before its tenant.
var owners = []string{"", string(owner.Saga), string(owner.Gateway)}

// ends are the texts that may follow the tenant in a scope. The last one is an escaped slash.
var ends = []string{" ", "/", "%2F"}

// TenantOf returns the tenant at the beginning of a scope: the text before the first blank or slash. A scope that
// package oncehttp makes begins with a tenant if the principal is the name of the tenant, or if the principal
// begins with the name of the tenant and a slash. In a scope that your program makes, escape the name of the
// tenant with url.PathEscape. If a scope has no blank and no slash, TenantOf returns "". For the scope of a
// saga's operation, TenantOf returns the tenant in the ID of the saga.
func TenantOf(scope string) string {
	scope = strings.TrimPrefix(scope, string(owner.Of(scope)))
	for _, end := range ends {
		scope, _, _ = strings.Cut(scope, end)
	}
	tenant, err := url.PathUnescape(scope)
	if err != nil || url.PathEscape(tenant) != scope {
		return ""
	}
	return tenant
}

// span is a range of scopes, ordered by their bytes: from the first one up to, but not including, before.
type span struct{ from, before string }

// spansOf returns the ranges that have all scopes of a tenant.
func spansOf(tenant string) (list []span) {
	for _, o := range owners {
		alone := o + url.PathEscape(tenant)
		list = append(list, span{alone, alone + "\x01"})
		for _, end := range ends {
			list = append(list, span{alone + end, prefixes.After(alone + end)})
		}
	}
	return list
}
