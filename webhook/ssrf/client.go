package ssrf

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"
)

const (
	dialTimeout    = 5 * time.Second
	idleTimeout    = 30 * time.Second
	defaultTimeout = 15 * time.Second
	defaultAnswer  = 64 << 10
)

// Client returns an HTTP client that connects only to addresses which the guard allows. The client follows no
// redirects: it returns an answer with a status 3xx unchanged, and the caller should treat such an answer as a
// failure of the receiver. The client verifies certificates, uses no proxy except [Guard.Proxy], and does not
// decompress answers. The client limits the time of each request, and the size of the headers and of the body of
// each answer. Call the method Client one time, and use the returned client for all requests.
func (g *Guard) Client() *http.Client {
	most := cmp.Or(g.MaxAnswer, defaultAnswer)
	dialer := &net.Dialer{Timeout: dialTimeout, Resolver: g.Resolver, Control: g.Control}
	transport := &http.Transport{
		DialContext:            dialer.DialContext,
		ForceAttemptHTTP2:      true,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: g.RootCAs},
		TLSHandshakeTimeout:    dialTimeout,
		IdleConnTimeout:        idleTimeout,
		MaxIdleConnsPerHost:    4,
		MaxIdleConns:           1024,
		MaxResponseHeaderBytes: most,
		DisableCompression:     true,
	}
	if g.Proxy != nil {
		transport.Proxy = http.ProxyURL(g.Proxy)
		transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			return (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, address) // this dialer connects only to the proxy, so it needs no guard
		}
	}
	return &http.Client{
		Timeout:       cmp.Or(g.Timeout, defaultTimeout),
		Transport:     &roundTripper{g, transport, most},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

type roundTripper struct {
	guard     *Guard
	transport *http.Transport
	most      int64
}

// RoundTrip implements [http.RoundTripper].
func (rt *roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	// The dialer sees only an address and a port. The scheme and the user of the URL are checked here.
	if err := rt.guard.checkForm(r.URL); err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // every RoundTripper must close the body
		}
		return nil, err
	}
	resp, err := rt.transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	// A receiver could send an answer without end.
	resp.Body = http.MaxBytesReader(nil, resp.Body, rt.most)
	return resp, nil
}

// CloseIdleConnections makes [http.Client.CloseIdleConnections] work.
func (rt *roundTripper) CloseIdleConnections() { rt.transport.CloseIdleConnections() }
