package gateway_test

// The tests with databases are in integration/gateway: "make test-of DIR=gateway" runs them after these.

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/gateway"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/memstore"
)

// newGateway returns a gateway with its store in memory, with what change changes.
func newGateway(t *testing.T, upstream string, change func(*gateway.Config)) *gateway.Gateway {
	t.Helper()
	u, err := url.Parse(upstream)
	if err != nil {
		t.Fatal(err)
	}
	cfg := gateway.Config{
		Name: "service", Upstream: u, Principal: oncehttp.SharedPrincipal(), Engine: once.Config{Observer: once.Discard},
		Store:  lease.New(memstore.New(), lease.Config{TTL: 10 * time.Second, Log: slog.New(slog.DiscardHandler)}),
		Routes: []gateway.Route{{Pattern: "POST /pay"}},
	}
	if change != nil {
		change(&cfg)
	}
	g, err := gateway.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

func onRoute(change func(*gateway.Route)) func(*gateway.Config) {
	return func(c *gateway.Config) { change(&c.Routes[0]) }
}

// ask sends a request with a key to g.
func ask(g http.Handler, key, body string, header ...string) *http.Response {
	r := httptest.NewRequest(http.MethodPost, "/pay", strings.NewReader(body))
	r.Header.Set("Idempotency-Key", key)
	for i := 0; i < len(header); i += 2 {
		r.Header[header[i]] = append(r.Header[header[i]], header[i+1])
	}
	return send(g, r)
}

// send serves a request; an answer that was cut off has the status as it was, and its body ends in "(cut)".
func send(g http.Handler, r *http.Request) *http.Response {
	w := httptest.NewRecorder()
	func() {
		defer func() {
			if p := recover(); p != nil {
				if p != http.ErrAbortHandler { //nolint:errorlint // it is panicked with as it is
					panic(p)
				}
				_, _ = io.WriteString(w, "(cut)")
			}
		}()
		g.ServeHTTP(w, r)
	}()
	return w.Result()
}

func bodyOf(t *testing.T, resp *http.Response) string {
	t.Helper()
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// codeOf is the code of the problem in an answer; "" if it is none.
func codeOf(t *testing.T, resp *http.Response) string {
	t.Helper()
	var p struct {
		Code string `json:"code"`
	}
	if body := bodyOf(t, resp); strings.HasPrefix(resp.Header.Get("Content-Type"), "application/problem+json") {
		if err := json.Unmarshal([]byte(body), &p); err != nil {
			t.Fatal(err)
		}
	}
	return p.Code
}

func want(t *testing.T, what string, got, want any) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}
