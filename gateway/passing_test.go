package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncelib/once/gateway"
	"github.com/oncelib/once/oncehttp"
)

// TestQueryPassesAsItIs: also one that package url cannot read.
func TestQueryPassesAsItIs(t *testing.T) {
	t.Parallel()
	s := newRaw1(t, func(int64) (string, bool) { return ok1, true })
	g := newGateway(t, "http://"+s.addr, nil)
	for _, query := range []string{"b=2&a=1;x=2", "a=100%&b=2"} {
		r := httptest.NewRequest(http.MethodGet, "/search", http.NoBody)
		r.URL.RawQuery = query
		send(g, r)
		s.mu.Lock()
		want(t, "query", s.last.URL.RawQuery, query)
		s.mu.Unlock()
	}
}

// TestForwardedOfATrustedProxy: it has ended TLS, and says so. Of others nothing is believed.
func TestForwardedOfATrustedProxy(t *testing.T) {
	t.Parallel()
	for trusted, told := range map[bool]string{true: "https shop.example", false: "http example.com"} {
		s := newRaw1(t, func(int64) (string, bool) { return ok1, true })
		g := newGateway(t, "http://"+s.addr, func(c *gateway.Config) {
			if trusted {
				c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
			}
		})
		for _, path := range []string{"/pay", "/other"} {
			r := httptest.NewRequest(http.MethodPost, path, strings.NewReader("1"))
			r.Header = http.Header{"Idempotency-Key": {"k"}, "X-Forwarded-Proto": {"https"}, "X-Forwarded-Host": {"shop.example"}, "X_forwarded.proto": {"forged"}}
			send(g, r)
			h := s.header()
			want(t, "as CGI reads it", h["X_forwarded.proto"] == nil, true)
			want(t, path, h.Get("X-Forwarded-Proto")+" "+h.Get("X-Forwarded-Host"), told)
		}
	}
}

// TestTargetWithoutAPath: a service may read it as a path of a route.
func TestTargetWithoutAPath(t *testing.T) {
	t.Parallel()
	s := newRaw1(t, func(int64) (string, bool) { return ok1, true })
	front := served(t, newGateway(t, "http://"+s.addr, nil))
	for _, target := range []string{"http:pay", "x:pay", "http:%2fpay"} {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(front, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, "POST "+target+" HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx")
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = resp.Body.Close(), conn.Close()
		want(t, target, resp.StatusCode, 400)
	}
	want(t, "requests", s.seen.Load(), int64(0))
}

// TestHostsHaveNoCase: a pattern with a host is that of all ways to write it.
func TestHostsHaveNoCase(t *testing.T) {
	t.Parallel()
	s := newRaw1(t, func(int64) (string, bool) { return ok1, true })
	for _, pattern := range []string{"POST shop.example/pay", "POST  Shop.example/pay"} {
		g := newGateway(t, "http://"+s.addr, onRoute(func(r *gateway.Route) { r.Pattern = pattern }))
		for _, host := range []string{"shop.example", "Shop.Example", "shop.example.", "SHOP.example.:80"} {
			r := httptest.NewRequest(http.MethodPost, "/pay", strings.NewReader("x"))
			r.Host = host
			want(t, host+" without a key", send(g, r).StatusCode, 400)
		}
	}
	want(t, "requests", s.seen.Load(), int64(0))
}

// TestNothingIsSaidOfEarlierForwards: without a store a retry that cannot be sent, or is refused, tells nothing about the forward before it, which
// may be under way.
func TestNothingIsSaidOfEarlierForwards(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]string{"not sent": "", "refused": status1(429, "")} {
		s := newRaw1(t, func(n int64) (string, bool) {
			if n == 1 {
				return "", false
			}
			return refusal, false
		})
		var refuse atomic.Bool
		g := newGateway(t, "http://"+s.addr, func(c *gateway.Config) {
			c.Store, c.Receipts, c.Routes[0].Timeout = nil, &memory{}, time.Minute
			c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				if refuse.Load() {
					return nil, errors.New("connection refused")
				}
				return new(net.Dialer).DialContext(ctx, network, address)
			}
		})
		ask(g, "k", "1")
		refuse.Store(refusal == "")
		resp := ask(g, "k", "1")
		if body := bodyOf(t, resp); strings.Contains(body, "Nothing was applied") || resp.Header.Get("Idempotency-Status") != "" {
			t.Errorf("%s: %v %s", name, resp.Header, body)
		}
	}
}

// TestNoTunnelToTheService: WebSocket passes, and no other protocol does: in HTTP/2 the client would say what it likes, around routes and headers.
func TestNoTunnelToTheService(t *testing.T) {
	t.Parallel()
	s := newRaw1(t, func(int64) (string, bool) { return ok1, true })
	g := newGateway(t, "http://"+s.addr, nil)
	for upgrade, passes := range map[string]bool{"h2c": false, "websocket, h2c": false, "": false, "WebSocket": true} {
		r := httptest.NewRequest(http.MethodGet, "/healthz", http.NoBody)
		r.Header = http.Header{"Connection": {"Upgrade, HTTP2-Settings"}, "Upgrade": {upgrade}, "Http2-Settings": {"AAMAAABkAAQAAP__"}}
		send(g, r)
		h := s.header()
		want(t, upgrade, h.Get("Upgrade") != "", passes)
		want(t, upgrade, h.Get("Connection") != "", passes)
		want(t, upgrade, h.Get("Http2-Settings"), "")
	}
}

// TestHiddenPaths: no client reaches them, however it writes them.
func TestHiddenPaths(t *testing.T) {
	t.Parallel()
	s := newRaw1(t, func(int64) (string, bool) { return ok1, true })
	g := newGateway(t, "http://"+s.addr, func(c *gateway.Config) { c.Hidden = []string{"/once-receipt"} })
	for _, path := range []string{"/once-receipt", "/once-receipt/1", "/x/../once-receipt/1", "//Once-Receipt/1", "/once%2dreceipt/1", "/once-receipt;a/1",
		"/x/..;/once-receipt/1", "/;x/once-receipt/1", "/x/..%3b/once-receipt/1", "/%3Bx/once-receipt/1", "/.;a=1/once-receipt/1", // a servlet container cuts parameters
		"/;a%2Fb/once-receipt/1", "/x;%2F../once-receipt/1", // some cut them before they decode
		"/x/%2e%2E/once-receipt/1", "/x%2F..%2Fonce-receipt/1", "/once-receipt%2F1", "/%2Fonce-receipt/1", "/x%2Fy/../once-receipt/1", "/x%2Fy/%2e%2e/once-receipt/1",
		"/once-receipt//../1", "/x//../../once-receipt/1", "/once-receipt/%2e%2e/../1", // ".." may remove an empty segment, and some services do not decode it
		"/once-receipt/../x", // a service that resolves nothing
		`/x/..\once-receipt/1`, `/\once-receipt/1`, "/x%5C..%5Conce-receipt/1", `/once-receipt\1`,
		"/Once-Receipt;x/../Once-Receipt/1", "/x/.././once-receipts",
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			want(t, path, send(g, httptest.NewRequest(method, "http://h"+path, http.NoBody)).StatusCode, 404)
		}
	}
	want(t, "requests", s.seen.Load(), int64(0))
	for _, path := range []string{"/receipts", "/x/once-receipt", "/x%2Fonce-receipt", "/x/../y;a=1/receipt", "/", "/..", "/;", "/once"} {
		want(t, path, send(g, httptest.NewRequest(http.MethodGet, "http://h"+path, http.NoBody)).StatusCode, 201)
	}
	g = newGateway(t, "http://"+s.addr, func(c *gateway.Config) { c.Hidden = []string{"/in/once-receipt/"} })
	for path, status := range map[string]int{"/in/once-receipt/1": 404, "/in/x;/../once-receipt/1": 404, "/in/y/../once-receipt/1": 404, "/once-receipt/../in/1": 201, "/in/once-receipts": 201, "/in;a/..": 201} {
		want(t, path, send(g, httptest.NewRequest(http.MethodGet, "http://h"+path, http.NoBody)).StatusCode, status)
	}
}

// TestLostAnswerWithoutAKeyIsNotRetryable: a client that sends such a request again could execute it twice. What was not sent can be sent again.
func TestLostAnswerWithoutAKeyIsNotRetryable(t *testing.T) {
	t.Parallel()
	s := newRaw1(t, func(int64) (string, bool) { return "", false })
	lost := newGateway(t, "http://"+s.addr, onRoute(func(r *gateway.Route) { r.Optional = true }))
	unsent := newGateway(t, "http://"+s.addr, func(c *gateway.Config) {
		c.Routes[0].Optional = true
		c.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("connection refused") }
	})
	type said struct {
		Code, Detail string
		Status       int
		Retryable    bool
	}
	pages := oncehttp.ProblemPages()
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete, http.MethodPost, http.MethodPatch, "PURGE"} {
		for _, path := range []string{"/pay", "/other"} {
			for _, body := range []string{"", "x"} {
				seen := s.seen.Load()
				for g, reached := range map[*gateway.Gateway]bool{lost: true, unsent: false} {
					r := httptest.NewRequest(method, path, strings.NewReader(body))
					resp := send(g, r)
					var p said
					if err := json.Unmarshal([]byte(bodyOf(t, resp)), &p); err != nil {
						t.Fatal(err)
					}
					retryable := !reached || method != http.MethodPost && method != http.MethodPatch && method != "PURGE"
					what := fmt.Sprintf("%s %s %q, reached: %t: ", method, path, body, reached)
					want(t, what+"retryable", p.Retryable, retryable)
					want(t, what+"status", resp.StatusCode, map[bool]int{true: 503, false: 502}[retryable])
					want(t, what+"nothing was applied", strings.Contains(p.Detail, "Nothing was applied"), !reached)
					w := httptest.NewRecorder()
					pages.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/"+strings.NewReplacer(".", "/", "_", "-").Replace(strings.ToLower(p.Code)), http.NoBody))
					want(t, what+"page of "+p.Code, w.Code, 200)
				}
				if n := s.seen.Load() - seen; n > 1 && method == http.MethodPost {
					t.Errorf("%s %s: the service got the request %d times", method, path, n)
				}
			}
		}
	}
	for g, status := range map[*gateway.Gateway]string{lost: "9", unsent: "14"} { // the library of a gRPC client takes a 502 for UNAVAILABLE, and sends the request again
		r := httptest.NewRequest(http.MethodPost, "/other", strings.NewReader("x"))
		r.Header.Set("Content-Type", "application/grpc")
		want(t, "grpc-status", send(g, r).Header.Get("Grpc-Status"), status)
	}
}
