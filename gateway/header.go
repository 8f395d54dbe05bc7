package gateway

import (
	"net/http"
	"net/http/httputil"
	"strings"
)

const schemeH2C = "h2c"

// address makes of a request one to the service.
func (g *Gateway) address(p *httputil.ProxyRequest) {
	u := *g.cfg.Upstream
	if u.Scheme == schemeH2C {
		u.Scheme = "http"
	}
	p.Out.URL.Scheme, p.Out.URL.Host, p.Out.Host = u.Scheme, u.Host, p.In.Host
	stripOwn(p.Out.Header)
	if isFrom(p.In.RemoteAddr, g.cfg.TrustedProxies) {
		p.Out.Header["X-Forwarded-For"] = p.In.Header["X-Forwarded-For"]
	} else {
		p.Out.Header.Del("X-Forwarded-For")
	}
	p.SetXForwarded()
}

// stripOwn removes all headers that only the gateway may send. A service behind CGI or WSGI reads Once_Operation as
// Once-Operation, so that is one of them.
func stripOwn(h http.Header) {
	for name := range h {
		if isOwn(name) {
			delete(h, name)
		}
	}
}

func isOwn(name string) bool {
	const prefix = "once-"
	return len(name) >= len(prefix) && strings.EqualFold(strings.ReplaceAll(name[:len(prefix)], "_", "-"), prefix)
}
