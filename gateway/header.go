package gateway

import (
	"net/http"
	"net/http/httputil"
	"strings"
)

const schemeH2C = "h2c"

// address changes a request of a client into a request for the service.
func (g *Gateway) address(p *httputil.ProxyRequest) {
	u := *g.cfg.Upstream
	if u.Scheme == schemeH2C {
		u.Scheme = "http"
	}
	p.Out.URL.Scheme, p.Out.URL.Host, p.Out.Host = u.Scheme, u.Host, p.In.Host
	// A client must not be able to send the headers of the gateway.
	stripOwn(p.Out.Header)
	trusted := isFrom(p.In.RemoteAddr, g.cfg.TrustedProxies)
	if trusted {
		p.Out.Header["X-Forwarded-For"] = p.In.Header["X-Forwarded-For"]
	} else {
		p.Out.Header.Del("X-Forwarded-For")
	}
	p.SetXForwarded()
	for _, name := range []string{"X-Forwarded-Proto", "X-Forwarded-Host"} {
		if said := p.In.Header[name]; trusted && len(said) > 0 { // the trusted proxy has ended TLS, so it knows the protocol and the host
			p.Out.Header[name] = said
		}
	}
}

// isForwarded reports whether a service behind CGI would read a header with another spelling as
// X-Forwarded-For, X-Forwarded-Proto or X-Forwarded-Host.
func isForwarded(name string) bool {
	const like = "X-Forwarded-"
	return len(name) > len(like) && strings.EqualFold(name[:1], "x") && strings.EqualFold(name[2:11], "forwarded") &&
		!isAlphanumeric(name[1]) && !isAlphanumeric(name[11]) && !strings.HasPrefix(name, like)
}

// stripOwn removes all headers that only the gateway may send. A service behind CGI or WSGI reads
// Once_Operation as Once-Operation, and some servers also read Once.Operation so. Therefore stripOwn removes
// these spellings too.
func stripOwn(h http.Header) {
	for name := range h {
		if isOwn(name) || isForwarded(name) {
			delete(h, name)
		}
	}
}

func isOwn(name string) bool {
	const prefix = "once"
	return len(name) > len(prefix) && strings.EqualFold(name[:len(prefix)], prefix) && !isAlphanumeric(name[len(prefix)])
}

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
