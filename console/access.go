package console

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/oncelib/once/operate"
)

// These are the reasons why a request is refused.
var (
	errOrigin   = errors.New("a page of another web site has sent this request, so the console refuses it")
	errLoopback = errors.New("this console has no user login (console.Config.User), so it answers only requests to localhost. Try: set console.Config.User")
	errAccess   = errors.New("you have no access to this console")
	errRole     = errors.New("this action needs the role of an operator, which you do not have")
	errNotFound = errors.New("this page does not exist, or the database has no such entry")
	errBusy     = errors.New("the console is busy with too many requests. Try: load the page again in a moment")
)

// userOf returns the user of a request, or the reason why the request is refused.
func (c *console) userOf(r *http.Request) (User, error) {
	if c.User == nil {
		if !isLocal(r) {
			return User{}, errLoopback
		}
		return User{Role: RoleViewer}, nil
	}
	u, err := c.User(r)
	if err != nil || u.Role == RoleOperator && strings.TrimSpace(u.Name) == "" { // each change is written to the audit, which needs a name
		return User{}, errAccess
	}
	// The tenant of a session without a tenant is "", and in a filter "" means all tenants. The clone of a list that is not nil is not nil.
	u.Tenants = slices.DeleteFunc(slices.Clone(u.Tenants), func(t string) bool { return t == "" })
	return u, nil
}

// isLocal reports whether a request came over the loopback interface and has a loopback name as its host. The check of the host protects against DNS
// rebinding: the host name of a malicious page may resolve to this address, and the browser sends this name in Host.
func isLocal(r *http.Request) bool {
	addr, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if addr == nil || !isLoopback(addr.String()) || !isLoopback(r.RemoteAddr) {
		return false
	}
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip"} { // a proxy has forwarded the request, perhaps from another machine
		if r.Header.Get(name) != "" {
			return false
		}
	}
	host := (&url.URL{Host: r.Host}).Hostname()
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

func isLoopback(addr string) bool {
	a, err := netip.ParseAddrPort(addr)
	return err == nil && a.Addr().Unmap().IsLoopback()
}

// operator returns an error if the user may not change anything.
func (q *request) operator() error {
	if q.user.Role != RoleOperator {
		return errRole
	}
	return nil
}

// scopeOf returns the prefix of the scopes of a tenant. The prefix ends with a blank, because otherwise the tenant "a" would see the scopes of the
// tenant "ab".
func scopeOf(tenant string) string { return url.PathEscape(tenant) + " " }

// sees reports whether the user may see the operations of a scope.
func (q *request) sees(scope string) bool {
	return q.user.Tenants == nil || slices.ContainsFunc(q.user.Tenants, func(t string) bool { return strings.HasPrefix(scope, scopeOf(t)) })
}

// tenant returns the tenant that a user with Tenants has chosen, and the prefix of its scopes. It returns "" for a user who sees all data.
func (q *request) tenant() (tenant, prefix string, err error) {
	if q.user.Tenants == nil {
		return "", "", nil
	}
	tenant = q.FormValue("tenant")
	switch {
	case len(q.user.Tenants) == 0:
		return "", "", errNotFound
	case tenant == "":
		tenant = q.user.Tenants[0]
	case !slices.Contains(q.user.Tenants, tenant):
		return "", "", errNotFound
	}
	return tenant, scopeOf(tenant), nil
}

// looked writes to the audit that an operator reads hidden data. If this write fails, the page does not show the data.
func (q *request) looked(a operate.Access) error {
	a.Shown = true
	if err := q.Operate.Keys.Looked(q.ctx, operate.By{Who: q.user.Name}, a); err != nil {
		return fmt.Errorf("the console does not show this page, because it cannot write your access to the audit: %w", err)
	}
	return nil
}
