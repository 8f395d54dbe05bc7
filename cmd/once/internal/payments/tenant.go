package payments

import (
	"context"
	"net/http"
	"regexp"
	"strings"
)

var tenantName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

type tenantKey struct{}

// tenant returns the tenant of a request.
func tenant(r *http.Request) string {
	name, _ := r.Context().Value(tenantKey{}).(string)
	return name
}

func asTenant(r *http.Request, name string) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), tenantKey{}, name))
}

// credentials are the value of the only Authorization header. If a request has two, it is not known which one a proxy has checked, so it has no
// credentials.
func credentials(r *http.Request) string {
	if lines := r.Header.Values("Authorization"); len(lines) == 1 {
		return lines[0]
	}
	return ""
}

// authenticate is the outermost layer: no request without a tenant reaches the keys. The token is the tenant's name, because the demo has nothing to
// protect; a real service replaces this check by its own.
func authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, token, _ := strings.Cut(credentials(r), " ")
		if !strings.EqualFold(scheme, "Bearer") || !tenantName.MatchString(token) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			writeProblem(w, unauthenticated())
			return
		}
		next.ServeHTTP(w, asTraced(asTenant(r, token)))
	})
}
