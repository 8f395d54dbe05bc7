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

// userOf returns the user of a request.
func (c *console) userOf(r *http.Request) (User, error) {
	if c.User == nil {
		if !isLocal(r) {
			return User{}, errLoopback
		}
		return User{Role: RoleViewer}, nil
	}
	u, err := c.User(r)
	if err != nil || u.Role == RoleOperator && strings.TrimSpace(u.Name) == "" { // the audit needs a name
		return User{}, errAccess
	}
	return u, nil
}

// isLocal reports whether a request has come over the loopback interface, and under a loopback name. The header Host protects against DNS rebinding:
// a request of a page whose host name resolves to this address has that name in Host.
func isLocal(r *http.Request) bool {
	addr, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if addr == nil || !isLoopback(addr.String()) || !isLoopback(r.RemoteAddr) {
		return false
	}
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip"} { // the request comes through a proxy, perhaps from another machine
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

// operator refuses users who may not change anything.
func (q *request) operator() error {
	if q.user.Role != RoleOperator {
		return errRole
	}
	return nil
}

// scopeOf returns the prefix of the scopes of a tenant.
// The blank belongs to the prefix: without it, tenant "a" would see the scopes of tenant "ab".
func scopeOf(tenant string) string { return url.PathEscape(tenant) + " " }

// sees reports whether the user may see operations of a scope.
func (q *request) sees(scope string) bool {
	return q.user.Tenants == nil || slices.ContainsFunc(q.user.Tenants, func(t string) bool { return strings.HasPrefix(scope, scopeOf(t)) })
}

// tenant returns the tenant that a user with tenants has asked for, and the prefix of its scopes.
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

// looked writes to the audit that an operator reads hidden data. If the audit fails, the data is not shown.
func (q *request) looked(a operate.Access) error {
	a.Shown = true
	if err := q.Operate.Keys.Looked(q.ctx, operate.By{Who: q.user.Name}, a); err != nil {
		return fmt.Errorf("the console does not show this page, because it cannot write your access to the audit: %w", err)
	}
	return nil
}
