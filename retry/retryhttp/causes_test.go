package retryhttp_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/retry/retryhttp"
)

// attempts returns how many attempts a call makes of what base cannot do, and with which
// error.
func attempts(t *testing.T, rt http.RoundTripper, method, url string) (n int, err error) {
	t.Helper()
	counted := roundTripper(func(r *http.Request) (*http.Response, error) {
		n++
		return rt.RoundTrip(r)
	})
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&retryhttp.Transport{Base: counted, Policy: retry.Policy{Base: -1, Attempts: 3, Budget: &retry.Budget{}}}).RoundTrip(r)
	if err == nil {
		resp.Body.Close()
	}
	return n, err
}

// quietly starts a TLS server that does not log what clients do to it.
func quietly(t *testing.T, config *tls.Config, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.TLS = config
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// What comes again with each attempt is tried once.
func TestFinalCauses(t *testing.T) {
	for name, c := range map[string]struct {
		status string
		want   int
	}{
		"a proxy that wants a password":  {"407 Proxy Authentication Required", 1},
		"a proxy that refuses":           {"403 Forbidden", 1},
		"a proxy that cannot reach it":   {"502 Bad Gateway", 3},
		"a proxy that is busy":           {"503 Service Unavailable", 3},
		"a proxy that closes at CONNECT": {"", 3},
	} {
		proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				panic(err)
			}
			if c.status != "" {
				_, _ = io.WriteString(conn, "HTTP/1.1 "+c.status+"\r\nContent-Length: 0\r\n\r\n")
			}
			conn.Close()
		}))
		address, _ := url.Parse(proxy.URL)
		if n, err := attempts(t, &http.Transport{Proxy: http.ProxyURL(address)}, http.MethodPut, "https://service.example"); n != c.want || err == nil {
			t.Errorf("%s: %d attempts, want %d: %v", name, n, c.want, err)
		}
		proxy.Close()
	}

	picky := quietly(t, &tls.Config{ClientAuth: tls.RequireAnyClientCert}, nil)
	trust := picky.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	if n, err := attempts(t, &http.Transport{TLSClientConfig: trust}, http.MethodPut, picky.URL); n != 1 || err == nil {
		t.Errorf("a server that wants a certificate: %d attempts: %v", n, err)
	}
	old := quietly(t, &tls.Config{MaxVersion: tls.VersionTLS12}, nil)
	newer := old.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	newer.MinVersion = tls.VersionTLS13
	if n, err := attempts(t, &http.Transport{TLSClientConfig: newer}, http.MethodPut, old.URL); n != 1 || err == nil {
		t.Errorf("a server of another version: %d attempts: %v", n, err)
	}

	var large bool
	verbose := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		large = true
		w.Header().Set("Large", strings.Repeat("x", 10<<10))
	}))
	defer verbose.Close()
	if n, err := attempts(t, &http.Transport{MaxResponseHeaderBytes: 4 << 10}, http.MethodPut, verbose.URL); n != 1 || err == nil || !large {
		t.Errorf("a header that is too large: %d attempts: %v", n, err)
	}

	for name, c := range map[string]struct {
		err  net.DNSError
		want int
	}{
		"no such host":           {net.DNSError{Err: "no such host", Name: "service.example", IsNotFound: true}, 1},
		"the resolver is down":   {net.DNSError{Err: "server misbehaving", Name: "service.example", IsTemporary: true}, 3},
		"the resolver is silent": {net.DNSError{Err: "i/o timeout", Name: "service.example", IsTimeout: true}, 3},
	} {
		base := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &c.err}
		}}
		if n, err := attempts(t, base, http.MethodPut, "http://service.example"); n != c.want || err == nil {
			t.Errorf("%s: %d attempts, want %d: %v", name, n, c.want, err)
		}
	}
}

// What was cut off before there was a connection has not left, whatever the request is:
// it is sent again without a key as well.
func TestNothingHasLeft(t *testing.T) {
	var n atomic.Int32
	server := quietly(t, nil, func(http.ResponseWriter, *http.Request) {})
	base := &http.Transport{
		TLSClientConfig: server.Client().Transport.(*http.Transport).TLSClientConfig.Clone(),
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			if err == nil && n.Add(1) < 3 { // dies in the handshake of TLS
				conn.Close()
			}
			return conn, err
		},
	}
	defer base.CloseIdleConnections()
	if sent, err := attempts(t, base, http.MethodPost, server.URL); sent != 3 || err != nil {
		t.Errorf("sent %d: %v", sent, err)
	}
	// One that has had a connection may have left.
	died := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer died.Close()
	var e *retry.Error
	if sent, err := attempts(t, &http.Transport{}, http.MethodPost, died.URL); sent != 1 || !errors.As(err, &e) || e.Reason != retry.ReasonNotSafe {
		t.Errorf("sent %d: %v", sent, err)
	}
}

// A key without a line says that a request can be repeated, and that no key is to be sent.
// Each repetition is ours.
func TestKeyWithoutALine(t *testing.T) {
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		for _, body := range []string{"", "body"} {
			s := &served{base: func(n int, r *http.Request) (*http.Response, error) {
				for sent := range r.Header {
					if strings.EqualFold(sent, name) {
						t.Errorf("%s is sent: %q", name, r.Header[sent])
					}
				}
				if r.GetBody != nil {
					t.Error("net/http can send it again by itself")
				}
				if n == 1 {
					return nil, errors.New("connection lost")
				}
				return answer(200), nil
			}}
			r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://service.example", strings.NewReader(body))
			r.Header[name] = nil
			rt := &retryhttp.Transport{Base: s, Keys: true, Policy: retry.Policy{Base: -1, Budget: &retry.Budget{}}}
			resp, err := rt.RoundTrip(r)
			if err != nil || len(s.requests()) != 2 {
				t.Errorf("%s, body %q: %v, sent %d", name, body, err, len(s.requests()))
				continue
			}
			resp.Body.Close()
			if _, kept := r.Header[name]; !kept {
				t.Errorf("%s was taken from the caller's header", name)
			}
		}
	}
}

// The request of an answer is the caller's: its context has not ended, and its header is
// what the caller has written, with the key.
func TestRequestOfTheAnswer(t *testing.T) {
	type own struct{}
	ctx := context.WithValue(t.Context(), own{}, "mine")
	for _, body := range []string{"", "body"} {
		s := &served{base: func(n int, _ *http.Request) (*http.Response, error) {
			if n < 3 {
				return answer(503), nil
			}
			return answer(200), nil
		}}
		rt := &retryhttp.Transport{Base: s, Dialect: retryhttp.Dialect{Announce: true}, Policy: retry.Policy{Base: -1, Budget: &retry.Budget{}}}
		r, _ := http.NewRequestWithContext(retryhttp.WithKey(ctx, retryhttp.Key{Value: "k"}), http.MethodPost, "http://service.example", strings.NewReader(body))
		r.Header.Set("Accept", "text/plain")
		resp, err := rt.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		got := resp.Request
		if h := got.Header; len(h) != 2 || h.Get("Accept") != "text/plain" || h.Get("Idempotency-Key") != "k" || len(r.Header) != 1 {
			t.Errorf("header %v", h)
		}
		if c := got.Context(); c.Err() != nil || c.Value(own{}) != "mine" || retryhttp.ResendCount(c) != 0 || got.URL != r.URL {
			t.Errorf("context %v", c)
		}
		// What is made with its context is retried as anything else.
		before := len(s.requests())
		s.base = always(503)
		r, _ = http.NewRequestWithContext(context.WithoutCancel(got.Context()), http.MethodGet, "http://service.example", nil)
		again, err := rt.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		again.Body.Close()
		if n := len(s.requests()) - before; n != 5 {
			t.Errorf("%d attempts", n)
		}
	}
}

// The budget of a transport is the one of the host's name, with the default port or without,
// with the dot of the root or without. A breaker is asked for by the same name.
func TestBudgetOfTheHost(t *testing.T) {
	for name, url := range map[string]string{
		"budget-a.example:443":  "https://budget-a.example/x",
		"Budget-b.example":      "https://budget-b.example:443/x",
		"budget-c.example:80":   "http://budget-c.example",
		"budget-d.example:8443": "https://budget-d.example:8443",
		"budget-e.example.":     "https://budget-e.example",
		"budget-f.example":      "https://budget-f.example.:443/x",
	} {
		if n, _ := attempts(t, always(503), http.MethodPut, url); n != 3 {
			t.Fatal(n)
		}
		asked := ""
		rt := &retryhttp.Transport{
			Base: always(503), Policy: retry.Policy{Base: -1, Attempts: 3},
			Breaker: func(host string) retry.Breaker {
				asked = host
				return breakerFunc(func() (func(retry.Health), error) { return func(retry.Health) {}, nil })
			},
		}
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		resp, err := rt.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if s := retry.BudgetFor(name).State(); s.Left != 8 || asked != s.Destination {
			t.Errorf("%s: %v of 10 are left to %q, and the breaker is that of %q", name, s.Left, s.Destination, asked)
		}
	}
}
