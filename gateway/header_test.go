package gateway_test

import (
	"math"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once/gateway"
)

var trusted = netip.MustParsePrefix("10.0.0.0/8")

// TestClientsCannotSpeakForTheGateway: Once-* headers of clients reach the service on no route, also those that CGI and WSGI read as such, and nor does
// what belongs to the connection.
func TestClientsCannotSpeakForTheGateway(t *testing.T) {
	t.Parallel()
	for _, listed := range []bool{true, false} {
		s := newRaw1(t, func(int64) (string, bool) { return ok1, true })
		g := newGateway(t, "http://"+s.addr, func(c *gateway.Config) {
			if !listed {
				c.Routes = nil
			}
		})
		ask(g, "k", "1", "Once-Operation", "forged", "Once_operation", "forged", "oNCE~operation", "forged", "Once.Operation", "forged", "Once-Fingerprint", "forged", "Once-Attempt", "1",
			"Connection", "X-Secret", "X-Secret", "s", "Keep-Alive", "1", "X-Forwarded-For", "6.6.6.6", "Expect", "100-continue", "X-Own", "kept")
		for name, values := range s.header() {
			for _, v := range values {
				if v == "forged" || v == "6.6.6.6" || strings.HasPrefix(strings.ToLower(name), "once") && !listed {
					t.Errorf("listed: %v: the service got %s: %s", listed, name, v)
				}
			}
		}
		want(t, "X-Secret", s.header().Get("X-Secret"), "")
		want(t, "X-Own", s.header().Get("X-Own"), "kept")
		want(t, "key", s.header().Get("Idempotency-Key"), "k")
		if listed {
			want(t, "operation", len(s.header().Get(gateway.OperationHeader)), 36)
			want(t, "fingerprint", len(s.header().Get(gateway.FingerprintHeader)) >= 64, true)
			want(t, "Expect", s.header().Get("Expect"), "")
		}
	}
}

// TestCallersAreApart: the same key of two callers is two operations, and one without an identity has none.
func TestCallersAreApart(t *testing.T) {
	t.Parallel()
	s := newRaw1(t, func(int64) (string, bool) { return ok1, true })
	g := newGateway(t, "http://"+s.addr, func(c *gateway.Config) { c.Principal = gateway.HeaderPrincipal("X-Tenant", trusted) })
	as := func(tenant, from string) int {
		r := httptest.NewRequest(http.MethodPost, "/pay", strings.NewReader("1"))
		r.RemoteAddr = from
		r.Header["X-Tenant"], r.Header["Idempotency-Key"] = []string{tenant}, []string{"k"}
		return send(g, r).StatusCode
	}
	want(t, "a", as("a", "10.1.2.3:1"), 201)
	want(t, "a again", as("a", "[::ffff:10.1.2.3]:1"), 201)
	want(t, "forwards", s.seen.Load(), int64(1))
	want(t, "b", as("b", "10.1.2.3:1"), 201)
	want(t, "forwards", s.seen.Load(), int64(2))
	want(t, "from elsewhere", as("a", "11.1.2.3:1"), 401)
	want(t, "from a socket", as("a", "@"), 401)
	want(t, "forwards", s.seen.Load(), int64(2))
}

// FuzzHeaderPrincipal: a header is believed from trusted addresses alone, and as one line.
func FuzzHeaderPrincipal(f *testing.F) {
	f.Add("10.0.0.1:80", "a", "")
	f.Add("11.0.0.1:80", "a", "")
	f.Add("[::ffff:10.0.0.1]:80", "a", "b")
	f.Add("[fe80::1%10.0.0.1]:80", "a", "")
	f.Add("10.0.0.1", "a", "")
	of := gateway.HeaderPrincipal("x-tenant", trusted)
	f.Fuzz(func(t *testing.T, remote, line, second string) {
		r := &http.Request{RemoteAddr: remote, Header: http.Header{"X-Tenant": {line}}}
		if second != "" {
			r.Header.Add("X-Tenant", second)
		}
		got := of(r)
		if got != "" && (got != line || second != "") {
			t.Fatalf("%q for %q and %q", got, line, second)
		}
		if addr, err := netip.ParseAddrPort(remote); got != "" && (err != nil || addr.Addr().Unmap().As4()[0] != 10) {
			t.Fatalf("%q was believed", remote)
		}
	})
}

// TestForwardedFor: a proxy that is trusted says for whom it asks.
func TestForwardedFor(t *testing.T) {
	t.Parallel()
	s := newRaw1(t, func(int64) (string, bool) { return ok1, true })
	g := newGateway(t, "http://"+s.addr, func(c *gateway.Config) { c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")} })
	ask(g, "k", "1", "X-Forwarded-For", "5.5.5.5")
	want(t, "X-Forwarded-For", s.header().Get("X-Forwarded-For"), "5.5.5.5, 192.0.2.1")
	want(t, "Host", s.header().Get("X-Forwarded-Host"), "example.com")
}

// TestConfigErrors: what cannot keep its promise does not start.
func TestConfigErrors(t *testing.T) {
	t.Parallel()
	newGateway(t, "http://127.0.0.1:1", func(c *gateway.Config) {
		for what, change := range map[string]func(*gateway.Config){
			"Config.Name is":                                    func(c *gateway.Config) { c.Name = "a b" },
			"Config.Upstream is missing":                        func(c *gateway.Config) { c.Upstream = nil },
			"Config.Principal is missing":                       func(c *gateway.Config) { c.Principal = nil },
			"Config.Store and Config.Receipts are both missing": func(c *gateway.Config) { c.Store = nil },
			"check needs Config.Receipts":                       onRoute(func(r *gateway.Route) { r.OnUnknown = gateway.PolicyCheck }),
			"needs UpstreamKeepsKeys":                           onRoute(func(r *gateway.Route) { r.OnUnknown = gateway.PolicyForwardSameKey }),
			`the policy "hold" does not exist`:                  onRoute(func(r *gateway.Route) { r.OnUnknown = "hold" }),
			"a size is larger than 1 TiB":                       onRoute(func(r *gateway.Route) { r.MaxStored = math.MaxInt64 }),
			"a duration or a size is negative":                  onRoute(func(r *gateway.Route) { r.Wait = -1 }),
			"Config.ReceiptsKept that is at least": func(c *gateway.Config) {
				c.Store, c.Receipts, c.ReceiptsKept, c.Routes[0].Retain = nil, &memory{}, time.Hour, 2*time.Hour
			},
			"parsing": onRoute(func(r *gateway.Route) { r.Pattern = "POST /{" }),
		} {
			bad := *c
			bad.Routes = append([]gateway.Route(nil), c.Routes...)
			change(&bad)
			if _, err := gateway.New(bad); err == nil || !strings.Contains(err.Error(), what) {
				t.Errorf("want %q: %v", what, err)
			}
		}
	})
}
