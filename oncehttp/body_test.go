package oncehttp_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/memstore"
)

// TestBodyAfterTheHandler: buffers are used again, so a body that a handler has kept of a request
// must not read the body of another one.
func TestBodyAfterTheHandler(t *testing.T) {
	var kept []io.Reader
	keep := func(r *http.Request) { kept = append(kept, r.Body) }
	for name, cfg := range map[string]oncehttp.Config{
		"by the handler": {},
		"by Config.Key":  {Key: func(r *http.Request) (string, error) { keep(r); return r.Header.Get("Idempotency-Key"), nil }},
	} {
		t.Run(name, func(t *testing.T) {
			kept = nil
			cfg.Principal = oncehttp.SharedPrincipal()
			h := oncehttp.Middleware(once.New(memstore.New(), once.Config{}), cfg)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				first := make([]byte, 1)
				if _, err := r.Body.Read(first); err != nil {
					t.Error(err)
				}
				keep(r)
			}))
			for i, body := range []string{strings.Repeat("a", 100), strings.Repeat("b", 100)} {
				r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body))
				r.Header.Set("Idempotency-Key", string(rune('k'+i)))
				w := httptest.NewRecorder()
				if h.ServeHTTP(w, r); w.Code != http.StatusOK {
					t.Fatal(w.Code, w.Body)
				}
			}
			for _, b := range kept {
				if got, err := io.ReadAll(b); !errors.Is(err, http.ErrBodyReadAfterClose) || len(got) > 0 {
					t.Errorf("%q, %v", got, err)
				}
			}
			if len(kept) < 2 {
				t.Error("nothing was kept")
			}
		})
	}
}

// TestBodyDuringTheEnd: a goroutine that a handler leaves behind may be reading just then.
func TestBodyDuringTheEnd(t *testing.T) {
	h := oncehttp.Middleware(once.New(memstore.New(), once.Config{}), oncehttp.Config{Principal: oncehttp.SharedPrincipal()})(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		reads, own := make(chan struct{}), r.Header.Get("Idempotency-Key")
		go func() {
			p := make([]byte, 1)
			for n := 0; ; n++ {
				if _, err := r.Body.Read(p); err != nil {
					return
				}
				if string(p) != own[:1] {
					t.Errorf("%q in the body of %q", p, own)
				}
				if n == 0 {
					close(reads)
				}
			}
		}()
		<-reads
	}))
	for i := range 200 {
		key := string(rune('a' + i%26))
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(strings.Repeat(key, 1000)))
		r.Header.Set("Idempotency-Key", key+once.NewKey())
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
}
