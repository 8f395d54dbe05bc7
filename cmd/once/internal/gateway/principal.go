package gateway

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/oncelib/once/gateway"
)

// warnEvery is the shortest time between two warnings of the same kind.
const warnEvery = time.Minute

// strangers logs warnings about requests that name a caller and come from an address that trusted_from does not list. Such requests get 401, and
// without the warning the operator would not know the reason.
type strangers struct {
	log  *slog.Logger
	next atomic.Int64 // in Unix nanoseconds, when the next warning may be logged
}

// tell returns the principal of c, with warnings.
func (s *strangers) tell(c *config, principal func(*http.Request) string) func(*http.Request) string {
	if c.Principal.Header == "" {
		return principal
	}
	name := http.CanonicalHeaderKey(c.Principal.Header)
	isTrusted := gateway.HeaderPrincipal(name, prefixes(c.Principal.TrustedFrom)...)
	return func(r *http.Request) string {
		caller := principal(r)
		if caller == "" && len(r.Header[name]) > 0 && isTrusted(&http.Request{RemoteAddr: r.RemoteAddr, Header: http.Header{name: {"any"}}}) == "" {
			s.warn(r, c.Principal.Header)
		}
		return caller
	}
}

func (s *strangers) warn(r *http.Request, header string) {
	now, next := time.Now(), s.next.Load()
	if now.UnixNano() < next || !s.next.CompareAndSwap(next, now.Add(warnEvery).UnixNano()) {
		return
	}
	from := r.RemoteAddr
	if a, err := netip.ParseAddrPort(from); err == nil {
		from = a.Addr().Unmap().String()
	}
	s.log.WarnContext(r.Context(), fmt.Sprintf("the header %s came from %s, and trusted_from does not list this address. Try: if a proxy with this address sets %[1]s, add the network of the proxy to trusted_from", header, from))
}
