package oncehttp_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/oncehttp/stripe"
)

// cors is the middleware of docs/browsers.md.
func cors(origin string, cfg oncehttp.Config, next http.Handler) http.Handler {
	allow, expose := cfg.CORS()
	allow = append(allow, "Authorization")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Add("Vary", "Origin")
		if r.Header.Get("Origin") == origin {
			h.Set("Access-Control-Allow-Origin", origin)
			h.Set("Access-Control-Expose-Headers", strings.Join(expose, ", "))
		}
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" { // a preflight, which has no credentials
			h.Set("Access-Control-Allow-Methods", "POST, PATCH")
			h.Set("Access-Control-Allow-Headers", strings.Join(allow, ", "))
			h.Set("Access-Control-Max-Age", "600")
			w.WriteHeader(http.StatusNoContent)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// TestCORSNames: the lists have what this package reads of requests and writes into answers, in the dialect of the route.
func TestCORSNames(t *testing.T) {
	for name, c := range map[string]struct {
		cfg           oncehttp.Config
		allow, expose []string
		not           []string
	}{
		"default": {
			oncehttp.Config{}, []string{"Idempotency-Key", "X-Idempotency-Key", "Content-Type", "Once-Attempt", "Once-First-Sent", "X-Request-Timeout", "X-Request-Id", "Traceparent"},
			[]string{"Idempotency-Status", "Idempotent-Replayed", "Idempotency-Retention", "Idempotency-Redacted", "Retry-After", "Location", "Link"}, []string{"", "Once-Undoes"},
		},
		"of the route": {
			oncehttp.Config{Headers: []string{"x-total", "Set-Cookie"}, Compare: oncehttp.Compare{Headers: []string{"x-version", "Host"}}},
			[]string{"X-Version", "Idempotency-Key"}, []string{"X-Total", "Idempotency-Status"}, []string{"Set-Cookie", "Host"},
		},
		"undo":   {oncehttp.Config{Undoes: "POST /deposits"}, []string{"Once-Undoes"}, []string{"Idempotency-Status"}, []string{"Idempotency-Key"}},
		"stripe": {oncehttp.Config{Preset: stripe.V1()}, []string{"Idempotency-Key"}, []string{"Stripe-Should-Retry", "Idempotency-Key"}, []string{"Idempotency-Status"}},
	} {
		allow, expose := c.cfg.CORS()
		for _, want := range c.allow {
			if !slices.Contains(allow, want) {
				t.Errorf("%s: %s is not in %v", name, want, allow)
			}
		}
		for _, want := range c.expose {
			if !slices.Contains(expose, want) {
				t.Errorf("%s: %s is not in %v", name, want, expose)
			}
		}
		for _, not := range c.not {
			if slices.Contains(allow, not) || name != "stripe" && slices.Contains(expose, not) {
				t.Errorf("%s: %q is in %v or %v", name, not, allow, expose)
			}
		}
		if !slices.IsSorted(allow) || len(slices.Compact(slices.Clone(expose))) != len(expose) {
			t.Errorf("%s: %v, %v", name, allow, expose)
		}
	}
}

// TestPreflightExecutesNothing: a preflight executes nothing and needs no caller. Every header that an answer has is one that a script may read, and
// a replay for a page of another origin is allowed for that origin, and not for the first one.
func TestPreflightExecutesNothing(t *testing.T) {
	cfg := oncehttp.Config{Principal: func(r *http.Request) string { return r.Header.Get("Authorization") }, Redact: []string{"/token"}}
	origin := "https://shop.example"
	s := start(t, setup{Config: cfg, around: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { cors(origin, cfg, next).ServeHTTP(w, r) })
	}}, writes(201, "application/json", `{"token":"t"}`))
	asks := "authorization, content-type, idempotency-key, once-attempt, x-request-timeout"
	got := s.send("OPTIONS", "/refunds", "", "Origin", origin, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", asks)
	allowed := strings.Split(strings.ToLower(got.header.Get("Access-Control-Allow-Headers")), ", ")
	for asked := range strings.SplitSeq(asks, ", ") {
		if !slices.Contains(allowed, asked) {
			t.Errorf("%s is not allowed: %v", asked, allowed)
		}
	}
	if got.status != 204 || got.idempotency() != "" {
		t.Errorf("%+v", got)
	}
	s.expect(0, "n", 0)
	send := func(body string) response {
		return s.post("k", body, "Origin", origin, "Authorization", "ada", "Content-Type", "application/json")
	}
	safelisted := []string{"Cache-Control", "Content-Language", "Content-Length", "Content-Type", "Expires", "Last-Modified", "Pragma", "Date", "Vary"}
	for i, body := range []string{"1", "1", "2"} { // stored, replayed, a mismatch
		got := send(body)
		exposed := strings.Split(got.header.Get("Access-Control-Expose-Headers"), ", ")
		for name := range got.header {
			if !strings.HasPrefix(name, "Access-Control-") && !slices.Contains(safelisted, name) && !slices.Contains(exposed, name) {
				t.Errorf("answer %d: a script cannot read %s", i, name)
			}
		}
	}
	origin = "https://app.example"
	if got := send("1"); got.idempotency() != "replayed" || strings.Join(got.header.Values("Access-Control-Allow-Origin"), " ") != origin || !slices.Contains(got.header.Values("Vary"), "Origin") {
		t.Errorf("%+v", got)
	}
	s.expect(1, "n", 1)
}
