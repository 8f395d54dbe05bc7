// Package oncehttp tests the middleware beside libraries that the root module does not know.
package oncehttp

import (
	"compress/flate"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5/middleware"
	"github.com/gorilla/handlers"
	"github.com/klauspost/compress/gzhttp"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/memstore"
)

// compressors are the usual ones. They differ in when they say what they do: gorilla before
// the handler runs, the others with its first byte.
var compressors = map[string]func(http.Handler) http.Handler{
	"gorilla":   handlers.CompressHandler,
	"chi":       middleware.Compress(5, "text/plain", "application/json"),
	"klauspost": func(next http.Handler) http.Handler { return gzhttp.GzipHandler(next) },
}

// TestCompressionOutside: with any of them around the middleware each client reads the same
// answer, first time and replay, whatever it accepts and whatever the first one accepted.
func TestCompressionOutside(t *testing.T) {
	text := strings.Repeat("refund 1, ", 1000) // more than what they leave alone
	for name, compress := range compressors {
		for _, accepted := range [][]string{{"gzip", "identity", "gzip", "deflate"}, {"identity", "gzip", "identity"}, {"deflate", "gzip", "identity"}, {"", "gzip"}} {
			runs := 0
			protect := oncehttp.Middleware(once.New(memstore.New(), once.Config{}), oncehttp.Config{Principal: oncehttp.SharedPrincipal()})
			server := httptest.NewServer(compress(protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				runs++
				if err := oncehttp.Tx[*memstore.Tx](r.Context()).Put("refund", "1"); err != nil {
					t.Error(err)
				}
				w.Header().Set("Content-Type", "text/plain")
				w.WriteHeader(http.StatusCreated)
				_, _ = io.WriteString(w, text)
			}))))
			encodings := map[string]bool{}
			for i, accept := range accepted {
				resp := post(t, server.URL, accept)
				encodings[resp.Header.Get("Content-Encoding")] = true
				if got := read(t, resp); got != text || resp.StatusCode != http.StatusCreated || (resp.Header.Get("Idempotent-Replayed") == "true") != (i > 0) {
					t.Errorf("%s, accepted are %q, request %d: %d %v, %.40q", name, accepted, i, resp.StatusCode, resp.Header, got)
				}
			}
			server.Close()
			if runs != 1 || !encodings["gzip"] || len(encodings) < 2 {
				t.Errorf("%s, accepted are %q: %d runs, encodings %v: vacuous", name, accepted, runs, encodings)
			}
		}
	}
}

func post(t *testing.T, url, accept string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("1000"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Idempotency-Key", "k")
	r.Header["Accept-Encoding"] = []string{accept} // also to keep net/http from asking for gzip
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// read returns the body of resp as what it is said to be.
func read(t *testing.T, resp *http.Response) string {
	t.Helper()
	defer resp.Body.Close()
	var body io.Reader = resp.Body
	switch encoding := resp.Header.Get("Content-Encoding"); encoding {
	case "":
	case "gzip":
		z, err := gzip.NewReader(body)
		if err != nil {
			return "not gzip: " + err.Error()
		}
		body = z
	case "deflate":
		body = flate.NewReader(body) // as these libraries understand it
	default:
		return "encoded as " + encoding
	}
	b, err := io.ReadAll(body)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
