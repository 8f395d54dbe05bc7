package oncehttp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/oncehttp/refundplaybook"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// A middleware inside of another one is part of its operation, so that its own Config has
// no effect. Where that is another one, the first request says so and does nothing.
func TestNestedConfigThatDiffers(t *testing.T) {
	var tenants []func(*http.Request) string // of one piece of code
	for _, header := range []string{"X-Tenant", "X-User"} {
		tenants = append(tenants, func(r *http.Request) string { return r.Header.Get(header) + "anybody" })
	}
	base := oncehttp.Config{Principal: tenants[0]}
	changed := func(change func(*oncehttp.Config)) oncehttp.Config {
		cfg := base
		change(&cfg)
		return cfg
	}
	for name, inner := range map[string]oncehttp.Config{
		"Config.Isolation":  changed(func(c *oncehttp.Config) { c.Isolation = store.Serializable }),
		"Config.Retain":     changed(func(c *oncehttp.Config) { c.Retain = time.Hour }),
		"Config.Optional":   changed(func(c *oncehttp.Config) { c.Optional = true }),
		"Config.Principal":  changed(func(c *oncehttp.Config) { c.Principal = tenants[1] }), // the same code
		"Config.Preset":     changed(func(c *oncehttp.Config) { c.Preset = refundplaybook.Preset() }),
		"Config.Timeouts":   changed(func(c *oncehttp.Config) { c.Timeouts.Lock = time.Second }),
		"Config.Headers":    changed(func(c *oncehttp.Config) { c.Headers = []string{"X-Other"} }),
		"Config.Route":      changed(func(c *oncehttp.Config) { c.Route = func(*http.Request) string { return "r" } }),
		"Config.MaxRequest": changed(func(c *oncehttp.Config) { c.MaxRequest = 1 }),
	} {
		m := memstore.New()
		e := once.New(m, once.Config{})
		handler := func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) { create(w, r, tx) }
		next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler(w, r, oncehttp.Tx[*memstore.Tx](r.Context())) })
		for kind, inside := range map[string]http.Handler{
			"Middleware": oncehttp.Middleware(e, inner)(next),
			"Handler":    oncehttp.Handler(e, inner, handler),
		} {
			h := oncehttp.Middleware(e, base)(inside)
			for range 2 { // not only at the first request
				p := panicOf(func() { roundTrip(h, "POST", "/", "", "k") })
				if !strings.Contains(p, name+" ") || !strings.Contains(p, "\nTry: ") {
					t.Errorf("%s with another %s: %q", kind, name, p)
				}
			}
			if n, _ := m.Get("n"); n != "" {
				t.Errorf("%s with another %s has run", kind, name)
			}
		}
	}
}

// What says the same is the same, and what does not take part does not matter.
func TestNestedConfigThatIsTheSame(t *testing.T) {
	e := once.New(memstore.New(), once.Config{})
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { create(w, r, oncehttp.Tx[*memstore.Tx](r.Context())) })
	serializable := oncehttp.Config{Principal: oncehttp.SharedPrincipal(), Isolation: store.Serializable}
	protect := oncehttp.Middleware(e, serializable)
	filled := serializable
	filled.Preset, filled.MaxStored = oncehttp.DefaultPreset(), 1<<20
	for name, h := range map[string]http.Handler{
		"one value":       protect(protect(next)),
		"one Config":      protect(oncehttp.Middleware(e, serializable)(next)),
		"defaults spelt":  protect(oncehttp.Middleware(e, filled)(next)),
		"three of them":   protect(protect(oncehttp.Middleware(e, filled)(next))),
		"engines between": protect(oncehttp.Middleware(once.New(memstore.New(), once.Config{}), oncehttp.Config{Principal: oncehttp.SharedPrincipal()})(protect(next))),
	} {
		for range 2 {
			if got := roundTrip(h, "POST", "/", "", name); got.status != 201 {
				t.Errorf("%s: %+v", name, got)
			}
		}
	}
	// A method that passes has no Config.
	h := protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		other := oncehttp.Middleware(e, oncehttp.Config{Principal: oncehttp.SharedPrincipal(), Optional: true})
		get := httptest.NewRequestWithContext(r.Context(), http.MethodGet, "/", http.NoBody)
		other(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(httptest.NewRecorder(), get)
		next.ServeHTTP(w, r)
	}))
	if got := roundTrip(h, "POST", "/", "", "k"); got.status != 201 {
		t.Errorf("GET inside: %+v", got)
	}
}

// An operation that is not a request has no Config that could be the same.
func TestMiddlewareInsideOfDo(t *testing.T) {
	e := once.New(memstore.New(), once.Config{})
	h := oncehttp.Middleware(e, oncehttp.Config{Principal: oncehttp.SharedPrincipal()})(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("executed")
	}))
	p := panicOf(func() {
		_, _ = once.Do(t.Context(), e, once.Operation{Scope: "s", Key: "k"}, func(ctx context.Context, _ *memstore.Tx) (int, error) {
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", http.NoBody)
			r.Header.Set("Idempotency-Key", "k")
			h.ServeHTTP(httptest.NewRecorder(), r)
			return 1, nil
		})
	})
	if !strings.Contains(p, "the transport ") || !strings.Contains(p, "\nTry: ") {
		t.Error(p)
	}
}
