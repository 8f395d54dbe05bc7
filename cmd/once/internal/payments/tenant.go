package payments

import (
	"context"
	"net/http"
	"regexp"
	"strings"
)

var tenantName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

type tenantKey struct{}

// tenant returns who is asking.
func tenant(r *http.Request) string {
	name, _ := r.Context().Value(tenantKey{}).(string)
	return name
}

func asTenant(r *http.Request, name string) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), tenantKey{}, name))
}

// credentials are those of the one header that has them. Of two it is unknown which one a
// proxy in front has judged: there are none.
func credentials(r *http.Request) string {
	if lines := r.Header.Values("Authorization"); len(lines) == 1 {
		return lines[0]
	}
	return ""
}

// authenticate is the outermost layer: no request without a name gets as far as the
// keys. The token is the tenant's name, as nothing here is worth stealing; a real
// service puts its own check in this place.
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
