package oncehttp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/memstore"
)

// tracer keeps the events with which calls begin.
type tracer struct {
	events

	begun events
}

func (l *tracer) TraceStart(ctx context.Context, e once.Event) (context.Context, string) {
	l.begun.Observe(ctx, e)
	return ctx, ""
}

// TestNameAndTrace: observers are told the kind of work and the trace of the client, also
// of work without a key, and never a path.
func TestNameAndTrace(t *testing.T) {
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	var seen tracer
	e := once.New(memstore.New(), once.Config{Observer: &seen})
	cfg := oncehttp.Config{Principal: oncehttp.SharedPrincipal(), Optional: true}
	answer := func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) { w.WriteHeader(http.StatusCreated) }
	protected := oncehttp.Handler(e, cfg, answer)
	mux := http.NewServeMux()
	mux.Handle("POST /refunds/{id}", protected)
	mux.Handle("/any/{id}", protected)
	mux.Handle("POST /batches", oncehttp.BatchHandler(e, cfg, func(w http.ResponseWriter, _ *http.Request, _ *once.Batch) { w.WriteHeader(http.StatusCreated) }))
	outside := http.NewServeMux()
	outside.Handle("/", mux)
	outside.Handle("/outside/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Pattern = "" // as if no router had seen it
		protected.ServeHTTP(w, r)
	}))
	server := httptest.NewServer(outside)
	defer server.Close()

	for _, c := range []struct{ method, path, key, trace, name, want string }{
		{"POST", "/refunds/1", "a", trace, "POST /refunds/{id}", trace},
		{"POST", "/refunds/1", "a", "", "POST /refunds/{id}", ""}, // a replay of another caller
		{"POST", "/refunds/2", "b", strings.ToUpper(trace), "POST /refunds/{id}", ""},
		{"POST", "/refunds/3", "c", "cc" + trace[2:] + "-more", "POST /refunds/{id}", trace},
		{"POST", "/refunds/4", "d", strings.Repeat("x", 1000), "POST /refunds/{id}", ""},
		{"POST", "/refunds/5", "", trace, "POST /refunds/{id}", trace},
		{"PUT", "/any/1", "e", trace, "PUT /any/{id}", trace},
		{"INVENTED-1", "/any/1", "f", trace, "_OTHER /any/{id}", trace},
		{"POST", "/batches", "g", trace, "POST /batches", trace},
		{"POST", "/outside/1", "h", trace, "POST", trace},
		{"INVENTED-2", "/outside/1", "i", "", "_OTHER", ""},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, server.URL+c.path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if c.key != "" {
			r.Header.Set("Idempotency-Key", c.key)
		}
		if c.trace != "" {
			r.Header.Set("Traceparent", c.trace)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		begun, ended := seen.begun.last(), seen.last()
		if resp.StatusCode != http.StatusCreated || begun.Name != c.name || ended.Name != c.name || begun.Trace != c.want {
			t.Errorf("%s %s, trace %q: %d, name %q, at the end %q, trace %q", c.method, c.path, c.trace, resp.StatusCode, begun.Name, ended.Name, begun.Trace)
		}
	}
}
